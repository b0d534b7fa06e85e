"""Reads a plan file and reports everything that is wrong with it at once, each with its line and key."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from vcrecovery.plan.agents import agent_problems, agent_warnings
from vcrecovery.plan.groups import group_problems
from vcrecovery.plan.leased import leased_problems
from vcrecovery.plan.lined_yaml import LinedYaml, NotYamlError
from vcrecovery.plan.model import Plan
from vcrecovery.plan.names import record_problems, record_warnings
from vcrecovery.plan.notify import notify_problems
from vcrecovery.plan.on_demand import on_demand_problems
from vcrecovery.plan.problems import Key, PlanError, Problem, dotted
from vcrecovery.plan.references import reference_problems
from vcrecovery.plan.services import service_problems, service_warnings
from vcrecovery.plan.shares import share_problems
from vcrecovery.plan.validated import validated
from vcrecovery.plan.vms import vm_problems, vm_warnings

#: Of the plans that this program reads.
VERSION = 1


def _remedy(error: Exception) -> str:
    """What helps where the plan cannot be read."""
    if isinstance(error, FileNotFoundError):
        return "name another by --plan or VCRECOVERY_PLAN; `vcrecovery plan init` writes a first one"
    if isinstance(error, PermissionError):
        return "run it as root"
    return "name a file" if isinstance(error, IsADirectoryError) else ""


def load_plan(path: Path) -> Plan:
    """The plan in `path`.

    Raises PlanError with every problem found.
    """
    return load_with_warnings(path)[0]


def load_with_warnings(path: Path) -> tuple[Plan, list[Problem]]:
    """The plan in `path`, and what may be meant so but delays or endangers a recovery.

    Raises PlanError with every problem found.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise PlanError(path, [Problem(0, "", f"cannot be read: {reason}")], _remedy(error)) from error
    try:
        yaml = LinedYaml(text)
    except NotYamlError as error:
        raise PlanError(path, [Problem(error.line, "", f"not valid YAML: {error}")]) from error
    raw = yaml.data
    if not isinstance(raw, dict):
        raise PlanError(path, [Problem(1, "", "is empty, or no mapping of keys to values")])
    version = raw.get("version")
    if isinstance(version, int) and version > VERSION:
        # Whatever else it has that is not known here is no mistake.
        newer = f"{version} is newer than what this program reads, which is {VERSION}"
        remedy = "upgrade VCRecovery on this machine, or take the plan that it had"
        raise PlanError(path, [Problem(yaml.line(("version",)), "version", newer)], remedy)

    def located(found: Iterable[tuple[Key, str]]) -> list[Problem]:
        return [Problem(yaml.line(key), dotted(key), message) for key, message in found]

    problems = [*yaml.problems, *located(reference_problems(raw))]
    plan, found = validated(Plan, raw, "the plan")
    problems += located(found)
    if plan is not None:
        checks = (
            *(leased_problems, service_problems, record_problems, group_problems),
            *(agent_problems, share_problems, vm_problems, on_demand_problems),
        )
        problems += located(found for check in checks for found in check(plan))
        problems += located(notify_problems(plan.notify))
    if problems or plan is None:
        raise PlanError(path, sorted(set(problems)))
    doubts = (record_warnings, agent_warnings, vm_warnings, service_warnings)
    return plan, sorted(located(found for doubt in doubts for found in doubt(plan)))
