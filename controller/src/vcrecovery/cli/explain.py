"""`vcrecovery explain`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vcrecovery.cli import complete
from vcrecovery.cli.options import as_text, json_option, plan_option, read_plan
from vcrecovery.cli.terminal import paint, width
from vcrecovery.errors import UsageError

if TYPE_CHECKING:
    from vcrecovery.core.episode import Episode
    from vcrecovery.operations.environment import Environment


@click.command()
@click.argument("episode", shell_complete=complete.episode, default="last", metavar="[EPISODE|SERVICE|last]")
@json_option
@plan_option
def explain(episode: str, as_json: bool, plan_path: Path) -> None:
    """Explain a failover: what was decided, why, on what evidence, and where the time went.

    EPISODE is the number that `history` shows; a SERVICE means its newest failover, `last` the newest of all. For one
    that is not finished: what it waits for, and what to type.
    """
    from vcrecovery.core.policy import Policy
    from vcrecovery.operations.environment import Environment
    from vcrecovery.operations.policy import policy_for
    from vcrecovery.report import explain as report
    from vcrecovery.report.look import holder

    plan = read_plan(plan_path)
    env = Environment(plan)
    found = _find(env, plan_path, episode)
    if found is None:
        click.echo(json.dumps(None) if as_json else "no failover yet")
        return
    # The service may have left the plan since.
    policy = policy_for(env, found.service) if found.service in plan.services else Policy()
    at_work, now = holder(plan.state_dir, found.service), env.clock.now()
    if as_json:
        click.echo(json.dumps(report.as_data(found, policy, now, at_work), indent=2))
        return
    click.echo("\n".join(report.lines(found, policy, now, holder=at_work, width=width(), paint=paint)))


def _find(env: Environment, plan_path: Path, said: str) -> Episode | None:
    """None when there is none yet. Raises UsageError when `said` names nothing."""
    journal = env.journal
    if said in env.plan.services:
        return next(iter(journal.history(said, 1)), None)
    newest = next(iter(journal.history(None, 1)), None)
    if said == "last":
        return newest
    number = said.removeprefix("#")
    if number.isascii() and number.isdigit() and len(number) < 19:
        if (found := journal.episode(int(number))) is not None:
            return found
        known = f"the newest is {newest.id}" if newest else "there is none yet"
        raise UsageError(f"no episode {number} ({known})", "`vcrecovery history` lists them")
    from vcrecovery.plan.problems import suggest

    # One that has left the plan may still have a history.
    if gone := journal.history(as_text(said), 1):
        return gone[0]
    raise UsageError(
        f"plan {plan_path} has no service {said[:80]!r} {suggest(said, sorted(env.plan.services))}",
        "name an episode's number, a service, or `last`",
    )
