"""`vcrecovery suspend`, `vcrecovery resume` and `vcrecovery acknowledge`."""

from __future__ import annotations

from pathlib import Path

import click

from vcrecovery.cli import complete
from vcrecovery.cli.options import as_text, known_service, operator, plan_option, read_plan
from vcrecovery.cli.timeline import day_and_time
from vcrecovery.core.service_state import Suspension
from vcrecovery.errors import UsageError
from vcrecovery.operations.environment import Environment
from vcrecovery.plan.fields import parse_duration


@click.command()
@click.argument("service", shell_complete=complete.service)
@click.option("--for", "duration", default="1h", show_default=True, help="How long: 30m, 2h, or `forever`.")
@click.option("--reason", default="", help="Shown by `vcrecovery status`.")
@plan_option
def suspend(service: str, duration: str, reason: str, plan_path: Path) -> None:
    """Suspend automatic failover of SERVICE: you may shut its primary down or destroy it.

    A primary that has crashed by the time the suspension ends is failed over then. While the standby of SERVICE serves,
    the returning primary is quarantined; during a suspension it may run.
    """
    plan = read_plan(plan_path)
    known_service(plan, plan_path, service)
    env = Environment(plan)
    now = env.clock.now()
    try:
        until = None if duration == "forever" else now + parse_duration(duration)
    except ValueError as error:
        raise UsageError(f"--for: {error}") from error
    env.journal.suspend(service, Suspension(now, until, as_text(reason) or f"by {operator()}"))
    end = f"until {day_and_time(until)}" if until else "until `vcrecovery resume`"
    click.echo(f"{service}: automatic failover suspended {end}")


@click.command()
@click.argument("service", shell_complete=complete.service)
@plan_option
def resume(service: str, plan_path: Path) -> None:
    """Resume automatic failover of SERVICE."""
    plan = read_plan(plan_path)
    known_service(plan, plan_path, service)
    env = Environment(plan)
    suspended = env.journal.state(service).suspension_at(env.clock.now())
    # Also one that is over is forgotten.
    env.journal.suspend(service, None)
    click.echo(f"{service}: {'automatic failover resumed' if suspended else 'nothing to do: it is not suspended'}")


@click.command()
@click.argument("service", shell_complete=complete.service)
@plan_option
def acknowledge(service: str, plan_path: Path) -> None:
    """Re-enable automatic failover of SERVICE: you have seen to its last failover.

    Otherwise it stays off for a while (detection.cool_down): a service that fails twice in a row is likely to fail a
    third time.
    """
    plan = read_plan(plan_path)
    known_service(plan, plan_path, service)
    env = Environment(plan)
    state, now = env.journal.state(service), env.clock.now()
    if not state.cools(plan.detection.cool_down, now):
        click.echo(f"{service}: nothing to do: it is not cooling down")
        return
    env.journal.acknowledge(service, now)
    click.echo(f"{service}: acknowledged; automatic failover is enabled again")
