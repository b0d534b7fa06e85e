"""What `vcrecovery plan advise` does, once it is called."""

from __future__ import annotations

import json
from pathlib import Path

import click

from vcrecovery.cli.costs import book_of
from vcrecovery.cost.advice import Bear, Proposal
from vcrecovery.drivers.clock import SystemClock
from vcrecovery.errors import RefusedError
from vcrecovery.operations.environment import Environment
from vcrecovery.plan.edit import NotHereError, difference, edited
from vcrecovery.plan.model import Plan
from vcrecovery.plan.problems import Key
from vcrecovery.report.advice import Wish, as_data, lines_of
from vcrecovery.report.proposals import advice_view


def advise(plan_path: Path, wish: Wish, bear: Bear, most: int | None, *, apply: bool, as_json: bool) -> None:
    plan, costs, book = book_of(plan_path, SystemClock().now())
    view = advice_view(Environment(plan), costs.currency, book, wish, bear, most)
    if as_json:
        click.echo(json.dumps(as_data(view), indent=2))
    elif apply:
        click.echo("\n".join(_changes(plan_path, plan, view.best)))
    else:
        click.echo("\n".join(lines_of(view)))
    if view.best is None:
        raise RefusedError("nothing that is priced does what was asked for", "ask for less, or price other machines")


def _changes(plan_path: Path, plan: Plan, best: Proposal | None) -> list[str]:
    """The modes and the machine of the plan, as a difference; what cannot be written so is said."""
    if best is None:
        return []
    secondaries = list(dict.fromkeys(service.standby.secondary for service in plan.services.values()))
    values: dict[Key, str] = {}
    notes = []
    for one in best.secondaries:
        values |= {
            ("services", name, "mode"): mode.value
            for name, mode in one.standbys.items()
            if plan.services[name].mode is not mode
        }
    if len(best.secondaries) == len(secondaries) == 1:
        cost = plan.secondaries[secondaries[0]].cost
        if cost is not None and cost.machine not in (None, best.secondaries[0].machine.name):
            values["secondaries", secondaries[0], "cost", "machine"] = best.secondaries[0].machine.name
    else:
        places = "; ".join(f"{one.machine.name}: {', '.join(one.standbys)}" for one in best.secondaries)
        notes.append(f"# secondaries and addresses are yours to lay out: {places}")
    before = plan_path.read_text(encoding="utf-8")
    after = before
    for key, value in values.items():
        try:
            after = edited(after, {key: value})
        except NotHereError as error:
            notes.append(f"# change it by hand, since it is written on one line: {error}: {value}")
    lines = difference(plan_path, before, after)
    return [*notes, *(lines or ["# the plan need not change"])]
