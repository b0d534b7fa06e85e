"""`vcrecovery standby snapshot` and `vcrecovery standby snapshots`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from vcrecovery.cli import complete, timeline
from vcrecovery.cli.options import json_option, known_service, plan_option, read_plan
from vcrecovery.cli.standby import standby
from vcrecovery.operations.environment import Environment
from vcrecovery.standby.restore_points import age_in_words, make, restore_points
from vcrecovery.store.lock import KEEPER_PATIENCE


@standby.command(short_help="Make a restore point, if one is due.")
@click.argument("service", shell_complete=complete.service, required=False)
@plan_option
def snapshot(service: str | None, plan_path: Path) -> None:
    """Make a restore point of SERVICE (or of all) if one is due and the standby is complete.

    The watcher does the same automatically. A second run within `restore_points.every` does nothing.
    """
    plan = read_plan(plan_path)
    names = [known_service(plan, plan_path, service)] if service else list(plan.services)
    env = Environment(plan)
    for name in names:
        made = make(plan, name, env.lxd[plan.services[name].standby.secondary], env.journal, env.clock, KEEPER_PATIENCE)
        removed = f"; removed: {', '.join(made.removed)}" if made.removed else ""
        click.echo(f"{name}: {made.why}{removed}")


@standby.command(short_help="List the restore points, newest first.")
@click.argument("service", shell_complete=complete.service)
@json_option
@plan_option
def snapshots(service: str, as_json: bool, plan_path: Path) -> None:
    """List the restore points of SERVICE, newest first."""
    plan = read_plan(plan_path)
    known_service(plan, plan_path, service)
    env = Environment(plan)
    points = restore_points(env.lxd[plan.services[service].standby.secondary], service)[::-1]
    now = env.clock.now()
    if as_json:
        entries = [
            {"name": p.name, "taken_at": p.taken_at, "age": max(0.0, now - p.taken_at), "kept": p.kept} for p in points
        ]
        click.echo(json.dumps({"service": service, "restore_points": entries}, indent=2))
        return
    for point in points:
        kept = "  kept until its failback is committed" if point.kept else ""
        age = age_in_words(now - point.taken_at)
        click.echo(f"{point.name}  {timeline.day_and_time(point.taken_at)}  {age} old{kept}")
    if not points:
        click.echo(f"{service}: no restore points")
