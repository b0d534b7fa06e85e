"""`vcrecovery secondary`: its words, and what they do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vcrecovery.cli import complete
from vcrecovery.cli.loading import without_collection
from vcrecovery.cli.options import operator, plan_option, read_plan, seconds_of
from vcrecovery.cli.output import say

if TYPE_CHECKING:
    from vcrecovery.operations.environment import Environment
    from vcrecovery.operations.secondary_power import SecondaryPower


@click.group()
def secondary() -> None:
    """Power a secondary on demand on or off (`power: on-demand` in the plan).

    A failover does that by itself, and so does the watcher once nothing needs it any more.
    """


@secondary.command()
@click.argument("name", metavar="SECONDARY", shell_complete=complete.secondary)
@click.option(
    "--for",
    "seconds",
    metavar="DURATION",
    callback=seconds_of,
    help="Keep it on for so long (30m, 2h), whether anything needs it or not.",
)
@plan_option
def on(name: str, seconds: float | None, plan_path: Path) -> None:
    """Boot SECONDARY, and return once its LXD answers. Files go on arriving: they are handed on to it."""
    power = _power(plan_path, name)[1]
    if seconds is not None:
        power.keep_on(seconds)
    say(power.power_on(f"asked for by {operator()}", say).summary)


@secondary.command()
@click.argument("name", metavar="SECONDARY", shell_complete=complete.secondary)
@plan_option
def off(name: str, plan_path: Path) -> None:
    """Shut SECONDARY down, and have files arrive on its disk again. Refused while something needs it."""
    power = _power(plan_path, name)[1]
    power.keep_on(0.0)
    was_on = power.power_off()
    say(f"secondary {power.name}: " + ("off, and takes files" if was_on else "was off, and takes files"))


@secondary.command(hidden=True)
@click.argument("name", metavar="SECONDARY")
@plan_option
def mount(name: str, plan_path: Path) -> None:
    """For systemd: mount the disk of SECONDARY, which is off."""
    env, power = _power(plan_path, name)
    env.mount_disk(name, power.disk_of_one_that_is_off(), power.place.disk)


@secondary.command(hidden=True)
@click.argument("name", metavar="SECONDARY")
@plan_option
def unmount(name: str, plan_path: Path) -> None:
    """For systemd: unmount it."""
    env, power = _power(plan_path, name)
    env.unmount_disk(name, power.disk_of_one_that_is_off(), power.place.disk)


def _power(plan_path: Path, name: str) -> tuple[Environment, SecondaryPower]:
    with without_collection():
        from vcrecovery.cli.recovery import refuse_unknown
        from vcrecovery.operations.environment import Environment
        from vcrecovery.operations.secondary_power import SecondaryPower

    env = Environment(read_plan(plan_path))
    refuse_unknown("secondary", name, list(env.plan.secondaries), plan_path)
    return env, SecondaryPower(env, name)
