"""`vcrecovery failover`."""

from __future__ import annotations

import getpass
from pathlib import Path

import click

from vcrecovery.cli.options import colour, known_service, plan_option, read_plan, service_of_vm
from vcrecovery.cli.timeline import LiveTimeline
from vcrecovery.errors import UsageError
from vcrecovery.recover.failover import fail_over
from vcrecovery.recover.lock import service_lock
from vcrecovery.recover.outside import Outside, policy_for
from vcrecovery.recover.states import Outcome, Request, Side
from vcrecovery.recover.world import World


@click.command()
@click.argument("service", required=False)
@click.option("--vm", metavar="UUID", help="Name the service by its VM.")
@click.option("--force", is_flag=True, help="Also if the primary still answers, or the standby is too old.")
@click.option("--primary-is-down", metavar="SERVICE", help="Your word, typed by name, in place of a fence.")
@click.option("--restore-point", metavar="NAME", help="Go back to this one before the start; `latest` is the newest.")
@plan_option
def failover(
    service: str | None,
    vm: str | None,
    force: bool,
    primary_is_down: str | None,
    restore_point: str | None,
    plan_path: Path,
) -> None:
    """Fail SERVICE over to its standby: confirm, fence, start, probe, switch DNS.

    Calling it again goes on where an earlier call stopped. A service that its standby serves already is left alone.
    """
    plan = read_plan(plan_path)
    if (service is None) == (vm is None):
        raise UsageError("name one service, or one VM with --vm")
    name = service_of_vm(plan, plan_path, vm) if vm else known_service(plan, plan_path, service or "")
    if primary_is_down not in (None, name):
        raise UsageError(f"--primary-is-down {primary_is_down} is not the service's name", f"type {name} to mean it")
    world = World(plan)
    by = getpass.getuser()
    request = Request(force=force, primary_is_down=primary_is_down is not None, by=by, restore_point=restore_point)
    with service_lock(plan.state_dir, name):
        state = world.journal.state(name)
        if state.side is Side.STANDBY and state.open_episode is None:
            click.echo(f"{name}: nothing to do: its standby serves since epoch {state.epoch}")
            return
        episode = fail_over(
            name,
            f"asked for by {by}",
            request,
            policy=policy_for(world, name),
            actuator=Outside(world, name),
            journal=world.journal,
            clock=world.clock,
            teller=LiveTimeline(),
        )
    assert episode.closed_at is not None  # noqa: S101  fail_over returns closed episodes
    took = episode.closed_at - episode.opened_at
    if episode.outcome is Outcome.DONE:
        click.echo(colour(f"{name}: served by its standby after {took:.1f} s", "green"))
    else:
        click.echo(f"{name}: {episode.reason}")
