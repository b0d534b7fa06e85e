"""`vcrecovery drill`."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vcrecovery.cli import complete
from vcrecovery.cli.loading import without_collection
from vcrecovery.cli.options import json_option, known_service, operator, plan_option, read_plan
from vcrecovery.cli.output import say
from vcrecovery.errors import ExitCode, UsageError, VCRecoveryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vcrecovery.operations.environment import Environment


class DrillFailedError(VCRecoveryError):
    """Not every service passed; the lines above said why. Has the status of the worst."""

    def __init__(self, message: str, hint: str, exit_code: ExitCode) -> None:
        super().__init__(message, hint)
        self.exit_code = exit_code


@click.command()
@click.argument("service", nargs=-1, shell_complete=complete.services)
@click.option("--group", shell_complete=complete.group, metavar="NAME", help="Every service of this group of the plan.")
@click.option("--all", "every", is_flag=True, help="Every service of the plan.")
@click.option("--due", is_flag=True, help="The service whose drill.every is over, if any (run by the watcher).")
@click.option("--dry-run", is_flag=True, help="Only check whether it could be done, and list the steps.")
@json_option
@plan_option
def drill(
    service: tuple[str, ...],
    group: str | None,
    every: bool,
    due: bool,
    dry_run: bool,
    as_json: bool,
    plan_path: Path,
) -> None:
    """Rehearse the failover of SERVICE on a clone of its standby, which production never notices.

    The clone boots in a network of its own, with its standby's address and no way out. Its ports are asked as in a
    failover, drill.command is run in it, and it is removed. Services that it needs are rehearsed with it. What a drill
    left that was killed is removed first.
    """
    with without_collection():
        from vcrecovery.operations.environment import Environment

    plan = read_plan(plan_path)
    if sum((bool(service), group is not None, every, due)) != 1:
        raise UsageError("name one or more services, or use one of --group, --all and --due")
    if group is not None and group not in plan.groups:
        from vcrecovery.plan.problems import suggest

        raise UsageError(f"plan {plan_path} has no group {group!r} {suggest(group, sorted(plan.groups))}")
    names = [known_service(plan, plan_path, name) for name in service]
    if group is not None:
        names = list(plan.groups[group].services)
    if every:
        names = list(plan.services)
    env = Environment(plan)
    if due:
        names = _due(env)
    if not names:
        say(json.dumps({"ok": True, "drills": []}, indent=2) if as_json else "no drill is due")
    elif dry_run:
        _only_check(env, names, as_json)
    else:
        _carry_out(env, names, "the watcher" if due else operator(), as_json)


def _due(env: Environment) -> list[str]:
    """The one that is due, once what a killed drill left is removed."""
    from vcrecovery.operations.drill import tidy
    from vcrecovery.operations.drill_loop import due
    from vcrecovery.store.lock import drill_lock

    with drill_lock(env.plan.state_dir):
        for name in tidy(env):
            say(f"container {name} of an interrupted drill removed")
    return due(env)


def _only_check(env: Environment, names: Sequence[str], as_json: bool) -> None:
    from vcrecovery.core.drill import clone_name, step_plan
    from vcrecovery.core.service_state import Side
    from vcrecovery.drivers.probe import label_of
    from vcrecovery.operations.drill import check, needed, sizes
    from vcrecovery.operations.serving import targets

    order = needed(env, names)
    check(env, order)
    copied = sizes(env, order)
    if as_json:
        services = [{"service": name, "clone": clone_name(name), "copied": copied[name]} for name in order]
        say(json.dumps({"ok": True, "would_rehearse": services}, indent=2))
        return
    for name in order:
        entry = env.plan.services[name]
        ports = [label_of(*target) for target in targets(entry, Side.STANDBY)]
        plan = step_plan(name, str(entry.standby.address), ports, entry.drill.command)
        say(f"{name}: would {plan} ({copied[name]})")


def _carry_out(env: Environment, names: Sequence[str], by: str, as_json: bool) -> None:
    from vcrecovery.cli.drill_timeline import EXIT_CODES, LiveDrill, SilentDrill, for_machines, missing
    from vcrecovery.operations.drill import needed, rehearse
    from vcrecovery.operations.several import worst

    # As Ctrl-C does: what was made is removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    order = needed(env, names)
    reporter = SilentDrill() if as_json else LiveDrill(max(map(len, order)), alone=len(order) == 1)
    drills = rehearse(env, order, by, reporter)
    if as_json:
        say(json.dumps(for_machines(drills), indent=2))
    code = worst(EXIT_CODES[one.outcome] for one in drills if one.outcome is not None)
    if code is not ExitCode.DONE:
        raise DrillFailedError(
            f"the drill did not pass: {missing(drills)}", "`vcrecovery history` shows how far each came", code
        )
