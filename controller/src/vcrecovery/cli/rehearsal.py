"""What `vcrecovery drill` does, once it is called."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from pathlib import Path

from vcrecovery.cli.drill_timeline import EXIT_CODES, LiveDrill, SilentDrill, for_machines, missing
from vcrecovery.cli.options import known_service, operator, read_plan
from vcrecovery.cli.output import say
from vcrecovery.core.drill import WATCHER, clone_name, step_plan
from vcrecovery.core.service_state import Side
from vcrecovery.drivers.probe import label_of
from vcrecovery.errors import ExitCode, UsageError, VCRecoveryError
from vcrecovery.operations.drill import check, needed, rehearse, sizes, tidy
from vcrecovery.operations.drill_loop import due_now
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.serving import targets
from vcrecovery.operations.several import worst
from vcrecovery.plan.model import Plan
from vcrecovery.plan.problems import suggest
from vcrecovery.store.lock import drill_lock


class DrillFailedError(VCRecoveryError):
    """Not every service passed; the lines above said why. Has the status of the worst."""

    def __init__(self, message: str, hint: str, exit_code: ExitCode) -> None:
        super().__init__(message, hint)
        self.exit_code = exit_code


def run(
    plan_path: Path,
    *,
    services: Sequence[str],
    groups: Sequence[str],
    every: bool,
    due: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    if sum((bool(services), bool(groups), every, due)) != 1:
        raise UsageError("name one or more services, or use one of --group, --all and --due")
    plan = read_plan(plan_path)
    names = _meant(plan, plan_path, services, groups, every=every)
    env = Environment(plan)
    if due:
        names = _due(env)
    if not names:
        say(json.dumps({"ok": True, "drills": []}, indent=2) if as_json else "no drill is due")
    elif dry_run:
        _only_check(env, needed(env, names), as_json)
    else:
        _carry_out(env, needed(env, names), WATCHER if due else operator(), as_json)


def _meant(plan: Plan, plan_path: Path, services: Sequence[str], groups: Sequence[str], *, every: bool) -> list[str]:
    """Raises UsageError with near names for one that the plan does not have."""
    for group in groups:
        if group not in plan.groups:
            raise UsageError(f"plan {plan_path} has no group {group!r} {suggest(group, sorted(plan.groups))}")
    if every:
        return list(plan.services)
    grouped = [name for group in groups for name in plan.groups[group].services]
    return [*grouped, *(known_service(plan, plan_path, name) for name in services)]


def _due(env: Environment) -> list[str]:
    """The one that is due, once what a killed drill left is removed."""
    with drill_lock(env.plan.state_dir):
        tidy(env)
    return due_now(env)


def _only_check(env: Environment, names: Sequence[str], as_json: bool) -> None:
    check(env, names)
    copied = sizes(env, names)
    if as_json:
        services = [{"service": name, "clone": clone_name(name), "copied": copied[name]} for name in names]
        say(json.dumps({"ok": True, "would_rehearse": services}, indent=2))
        return
    for name in names:
        entry = env.plan.services[name]
        ports = [label_of(*target) for target in targets(entry, Side.STANDBY)]
        steps = step_plan(name, str(entry.standby.address), ports, entry.drill.command)
        say(f"{name}: would {steps} ({copied[name]})")


def _carry_out(env: Environment, names: Sequence[str], by: str, as_json: bool) -> None:
    # As Ctrl-C does: what was made is removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    reporter = SilentDrill() if as_json else LiveDrill(max(map(len, names)), alone=len(names) == 1)
    drills = rehearse(env, names, by, reporter)
    if as_json:
        say(json.dumps(for_machines(drills), indent=2))
    code = worst(EXIT_CODES[one.outcome] for one in drills if one.outcome is not None)
    if code is not ExitCode.DONE:
        hint = "`vcrecovery history` shows how far each came"
        raise DrillFailedError(f"the drill did not pass: {missing(drills)}", hint, code)
