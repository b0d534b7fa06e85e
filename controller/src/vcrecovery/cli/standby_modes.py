"""`vcrecovery standby set` and `vcrecovery standby modes`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from vcrecovery.cli import complete
from vcrecovery.cli.options import json_option, known_service, plan_option, read_plan, seconds_of
from vcrecovery.cli.standby import standby
from vcrecovery.errors import BusyError, ExternalError, RefusedError
from vcrecovery.operations.environment import Environment
from vcrecovery.plan.modes import Mode
from vcrecovery.plan.on_demand import is_on_demand
from vcrecovery.standby.keeper import StandbyKeeper
from vcrecovery.standby.modes import ChosenModes, refreshed

_LOOK_EVERY = 0.2
PLAN = "plan"


@standby.command("set", short_help="Change the mode in which a standby waits.")
@click.argument("service", shell_complete=complete.service)
@click.argument("mode", type=click.Choice([*(mode.value for mode in Mode), PLAN]))
@click.option("--timeout", default="5m", show_default=True, callback=seconds_of, help="How long to wait: 90s, 10m.")
@plan_option
def set_mode(service: str, mode: str, timeout: float, plan_path: Path) -> None:
    """Change the mode in which the standby of SERVICE waits; MODE `plan` returns it to the plan's.

    Waits until it is in that mode. The choice survives restarts; the watcher keeps it.
    """
    plan = read_plan(plan_path)
    entry = plan.services[known_service(plan, plan_path, service)]
    if mode not in (PLAN, Mode.COLD) and is_on_demand(plan.secondaries[entry.standby.secondary]):
        said = f"secondary {entry.standby.secondary} is off until a failover (power: on-demand)"
        raise RefusedError(
            f"the standby of {service} stays cold: {said}", "`vcrecovery plan check` names what it needs"
        )
    chosen, wanted = ChosenModes(plan.state_dir), None if mode == PLAN else Mode(mode)
    if entry.restore_points.keep and (wanted or entry.mode) is not Mode.COLD:
        click.echo(f"{service}: no restore points are made in mode {wanted}: its container is never off", err=True)
    changed = chosen.read(service) != wanted
    if changed:
        chosen.write(service, wanted)
    env = Environment(plan)
    keeper = StandbyKeeper(plan, env.lxd, env.journal, env.clock)
    deadline = env.clock.steady() + timeout
    while True:
        try:
            looked = keeper.look(service)
        except BusyError as error:
            busy: str | None = str(error)
        else:
            busy = None
            if looked.act is not None:
                changed = True
                click.echo(f"{service}: {looked.sentence}")
            if looked.there:
                break
        if env.clock.steady() > deadline:
            why = busy or looked.sentence
            raise ExternalError(
                f"{service} is not in mode {chosen.of(service, entry)} after {timeout:.0f} s: {why}",
                "`vcrecovery watch` goes on with it",
            )
        if busy is not None or looked.act is None:
            env.clock.sleep(_LOOK_EVERY)
    click.echo(f"{service}: {looked.sentence}" + ("" if changed else "; nothing to do"))


@standby.command(short_help="Show each standby's mode.")
@json_option
@plan_option
def modes(as_json: bool, plan_path: Path) -> None:
    """Show in which mode each standby waits, and the age of its processes."""
    plan = read_plan(plan_path)
    env, chosen = Environment(plan), ChosenModes(plan.state_dir)
    shown: dict[str, dict[str, Any]] = {}
    for name, service in plan.services.items():
        try:
            found = env.lxd[service.standby.secondary].get(name)
            state = "missing" if found is None else found.status.lower()
        except ExternalError:
            found, state = None, "unreachable"
        since = refreshed(found) if found is not None else None
        shown[name] = {
            "mode": chosen.of(name, service).value,
            "plan": service.mode.value,
            "state": state,
            "refreshed": since.since if since is not None and state in ("running", "frozen") else None,
        }
    if as_json:
        click.echo(json.dumps({"services": shown}, indent=2))
        return
    for name, entry in shown.items():
        other = f" (the plan says {entry['plan']})" if entry["mode"] != entry["plan"] else ""
        age = entry["refreshed"] and f", refreshed {max(0.0, env.clock.now() - entry['refreshed']):.0f} s ago"
        click.echo(f"{name}  {entry['mode']}{other}, {entry['state']}{age or ''}")
