"""Options that verbs share, and how they find what the user named."""

from __future__ import annotations

import getpass
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from vcrecovery.cli.loading import without_collection
from vcrecovery.errors import UsageError
from vcrecovery.plan import DEFAULT_PATH

if TYPE_CHECKING:
    from vcrecovery.plan.model import Plan

F = TypeVar("F", bound=Callable[..., Any])


def plan_option(function: F) -> F:
    return click.option(
        "--plan",
        "plan_path",
        type=click.Path(path_type=Path, readable=False),  # whoever reads it says what is wrong
        default=DEFAULT_PATH,
        show_default=True,
        envvar="VCRECOVERY_PLAN",
        show_envvar=True,
        help="The plan file.",
    )(function)


def json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")(function)


def known_service(plan: Plan, plan_path: Path, name: str) -> str:
    """`name`, if the plan has it. Raises UsageError with near names otherwise."""
    from vcrecovery.plan.problems import suggest

    if name not in plan.services:
        raise UsageError(f"plan {plan_path} has no service {name!r} {suggest(name, sorted(plan.services))}")
    return name


def service_of_vm(plan: Plan, plan_path: Path, uuid: str) -> str:
    """The service whose primary has this UUID. Raises UsageError otherwise."""
    from vcrecovery.plan.problems import suggest

    by_vm = {str(service.primary.uuid): name for name, service in plan.services.items()}
    wanted = uuid.strip().lower()
    if wanted not in by_vm:
        raise UsageError(f"no service of plan {plan_path} has a VM {uuid!r} {suggest(wanted, sorted(by_vm))}")
    return by_vm[wanted]


def operator() -> str:
    """Who calls, for the journal."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"


class Seconds(click.FloatRange):
    """So long that it can be waited for."""

    def __init__(self, most: float) -> None:
        super().__init__(0.1, most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if math.isnan(found):
            self.fail(f"nan is not in the range {self._describe_range()}.", param, ctx)
        return found


def seconds_of(_context: click.Context, option: click.Parameter, typed: str | None) -> float | None:
    """Of a duration that was typed, such as 10m; for an option's `callback`."""
    if typed is None:
        return None
    # With the schema, which --help and completion do without.
    with without_collection():
        from vcrecovery.plan.fields import parse_duration

    try:
        return parse_duration(typed)
    except ValueError as error:
        raise UsageError(f"{option.opts[0]}: {error}") from error


def read_plan(plan_path: Path) -> Plan:
    """Raises PlanError."""
    # Reading a plan takes a quarter of a second's worth of imports, which --help and the shell's completion do without.
    with without_collection():
        from vcrecovery.plan.load import load_plan

        return load_plan(plan_path)


def is_terminal() -> bool:
    """Whether the output goes to a terminal that knows colours, and where its cursor is."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def colour(text: str, name: str) -> str:
    """Coloured on a terminal, unless NO_COLOR is set (no-color.org)."""
    if not is_terminal() or os.environ.get("NO_COLOR"):
        return text
    return click.style(text, fg=name)


def as_text(words: str) -> str:
    """What was typed, also where it is not text in this locale: a journal takes nothing else."""
    return words.encode(errors="backslashreplace").decode()
