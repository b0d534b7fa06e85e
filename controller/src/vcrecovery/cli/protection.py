"""`vcrecovery pause`, `vcrecovery resume` and `vcrecovery acknowledge`."""

from __future__ import annotations

from pathlib import Path

import click

from vcrecovery.cli import complete
from vcrecovery.cli.options import as_text, known_service, operator, plan_option, read_plan
from vcrecovery.cli.timeline import day_and_time
from vcrecovery.core.states import Pause
from vcrecovery.errors import UsageError
from vcrecovery.operations.environment import Environment
from vcrecovery.plan.fields import parse_duration


@click.command()
@click.argument("service", shell_complete=complete.service)
@click.option("--for", "duration", default="1h", show_default=True, help="How long: 30m, 2h, or `forever`.")
@click.option("--reason", default="", help="For whoever reads the status.")
@plan_option
def pause(service: str, duration: str, reason: str, plan_path: Path) -> None:
    """Protect SERVICE no more for a while: you may shut its primary down or destroy it.

    If the primary has crashed when the pause ends, it is failed over then. While the standby of SERVICE serves, a pause
    lets the old primary run, which is held paused otherwise.
    """
    plan = read_plan(plan_path)
    known_service(plan, plan_path, service)
    env = Environment(plan)
    now = env.clock.now()
    try:
        until = None if duration == "forever" else now + parse_duration(duration)
    except ValueError as error:
        raise UsageError(f"--for: {error}") from error
    env.journal.pause(service, Pause(now, until, as_text(reason) or f"by {operator()}"))
    end = f"until {day_and_time(until)}" if until else "until `vcrecovery resume`"
    click.echo(f"{service}: paused {end}")


@click.command()
@click.argument("service", shell_complete=complete.service)
@plan_option
def resume(service: str, plan_path: Path) -> None:
    """Protect SERVICE again."""
    plan = read_plan(plan_path)
    known_service(plan, plan_path, service)
    env = Environment(plan)
    paused = env.journal.state(service).pause_at(env.clock.now())
    # Also one that is over is forgotten.
    env.journal.pause(service, None)
    click.echo(f"{service}: protected again" if paused else f"{service}: nothing to do: it is not paused")


@click.command()
@click.argument("service", shell_complete=complete.service)
@plan_option
def acknowledge(service: str, plan_path: Path) -> None:
    """Say that you have seen SERVICE's last failover: the next one may begin by itself at once.

    Without this, none does for a while (detection.cool_down): what fails twice in a row would go on failing.
    """
    plan = read_plan(plan_path)
    known_service(plan, plan_path, service)
    env = Environment(plan)
    state, now = env.journal.state(service), env.clock.now()
    if not state.cools(plan.detection.cool_down, now):
        click.echo(f"{service}: nothing to do: it is not cooling down")
        return
    env.journal.acknowledge(service, now)
    click.echo(f"{service}: acknowledged; the next failover may begin by itself")
