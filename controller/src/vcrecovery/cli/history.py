"""`vcrecovery history`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vcrecovery.cli import complete
from vcrecovery.cli.options import json_option, known_service, plan_option, read_plan
from vcrecovery.cli.terminal import paint

if TYPE_CHECKING:
    from vcrecovery.core.episode import Episode
    from vcrecovery.core.service_state import ServiceState


@click.command()
@click.argument("service", shell_complete=complete.service, required=False)
@click.option(
    "--limit",
    default=20,
    show_default=True,
    type=click.IntRange(1, 1_000_000),
    help="How many failovers, how many outages, and how many drills.",
)
@click.option("--since", metavar="TIME", help="Only those that began since: 2h, 3d, 2026-11-21, 2026-11-21T03:00.")
@json_option
@plan_option
def history(service: str | None, limit: int, since: str | None, as_json: bool, plan_path: Path) -> None:
    """Show failovers, with the time and the evidence of each step, outages and drills; newest last.

    `vcrecovery explain EPISODE` explains a failover. An outage is a time in which whoever serves did not answer, as
    far as `vcrecovery watch` has seen it.
    """
    from vcrecovery.core.drill import Drill, DrillOutcome
    from vcrecovery.core.episode import Outcome
    from vcrecovery.core.health import Outage
    from vcrecovery.operations.environment import Environment
    from vcrecovery.report import drills as of_drills
    from vcrecovery.report.history import all_as_data, began_at, in_a_line, moment
    from vcrecovery.report.timeline import cooling, of_episode
    from vcrecovery.store.drills import DrillBook
    from vcrecovery.store.outages import OutageBook

    plan = read_plan(plan_path)
    if service:
        known_service(plan, plan_path, service)
    env = Environment(plan)
    begin = moment(since, env.clock.now()) if since is not None else 0.0
    episodes = env.journal.history(service, limit, begin)[::-1]
    outages = OutageBook(env.journal).history(service, limit, begin)[::-1]
    drills = DrillBook(env.journal).history(service, limit, begin)[::-1]
    if as_json:
        click.echo(json.dumps(all_as_data(episodes, outages, drills), indent=2))
        return
    if not episodes:
        click.echo(f"no failover since {since}" if since is not None else "no failover yet")
    now = env.clock.now()
    states: dict[str, ServiceState] = {}

    def show(episode: Episode) -> None:
        first, *rest = of_episode(episode)
        click.echo(paint(first, "green" if episode.outcome is Outcome.DONE else "yellow"))
        if (state := states.get(episode.service)) is None:
            state = states[episode.service] = env.journal.state(episode.service)
        click.echo("\n".join([*rest, *cooling(episode, state, plan.detection.cool_down, now)]))

    entries: list[Episode | Outage | Drill] = [*episodes, *outages, *drills]
    for entry in sorted(entries, key=began_at):
        if isinstance(entry, Outage):
            click.echo(paint(in_a_line(entry, now), "red" if entry.ended_at is None else "yellow"))
        elif isinstance(entry, Drill):
            shade = "green" if entry.outcome is DrillOutcome.PASSED else "yellow"
            click.echo("\n".join([paint(of_drills.in_a_line(entry), shade), *of_drills.step_lines(entry)]))
        else:
            show(entry)
