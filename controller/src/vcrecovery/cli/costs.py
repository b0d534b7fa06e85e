"""What `vcrecovery cost` does, once it is called."""

from __future__ import annotations

import json
from pathlib import Path

import click

from vcrecovery.cli.options import read_plan
from vcrecovery.cli.output import say
from vcrecovery.cost.alternatives import alternatives
from vcrecovery.cost.book import PriceBook
from vcrecovery.cost.month import Month, OnFor, day_of, hours_in, month_of, on_for, served
from vcrecovery.cost.sources import sources_of
from vcrecovery.cost.spent import Sent, spent
from vcrecovery.cost.split import split
from vcrecovery.drivers.clock import SystemClock
from vcrecovery.errors import ExternalError, UsageError
from vcrecovery.operations.environment import Environment, with_own_places
from vcrecovery.plan.costs import Costs
from vcrecovery.plan.model import Plan
from vcrecovery.plan.on_demand import is_on_demand
from vcrecovery.report import costs as page
from vcrecovery.store.freshness_book import FreshnessBook
from vcrecovery.store.journal import Journal
from vcrecovery.store.leases import LeaseBook
from vcrecovery.store.powered import PoweredBook

#: So many of a service's episodes are read: more than a year has.
_EPISODES = 10_000
#: And so many machines that were made for a while.
_LEASES = 10_000


def compare(plan_path: Path, providers: int, *, explain: bool, as_csv: bool, as_json: bool) -> None:
    plan, costs, book = book_of(plan_path, SystemClock().now())
    view = page.view_of(plan, costs, book, providers)
    if as_json:
        click.echo(json.dumps(page.as_data(view), indent=2))
    elif as_csv:
        click.echo(page.as_csv(view), nl=False)
    else:
        click.echo("\n".join([*page.table(view), *(page.origins(view) if explain else [])]))


def month_so_far(plan_path: Path, name: str, *, explain: bool, as_csv: bool, as_json: bool) -> None:
    now = SystemClock().now()
    try:
        month = month_of(None if name == "this" else name, now)
    except ValueError as error:
        raise UsageError(f"--month: {error}") from error
    # A past month's rates are those of its last day.
    plan, costs, book = book_of(plan_path, min(now, month.end - 1))
    # Where standbys happen to be now says nothing of the month: they are paid for where the plan has them.
    journal = Environment(with_own_places(plan)).journal
    by_service = {s: served(journal.history(s, _EPISODES), journal.state(s).side, month) for s in plan.services}
    found = spent(
        plan,
        book,
        month,
        alternatives(plan, book, 1)[0].lines,
        by_service,
        _sent(plan, month),
        _on(plan, journal, month),
        _leased(journal, month),
    )
    parts = split(plan, found.so_far), split(plan, found.forecast)
    if as_json:
        click.echo(json.dumps(page.month_as_data(found, costs.currency, *parts), indent=2))
    elif as_csv:
        click.echo(page.lines_as_csv([(month.name, line) for line in found.so_far], costs.currency), nl=False)
    else:
        lines = page.month_table(found, costs.currency, *parts)
        click.echo("\n".join([*lines, *(["", *page.lines_origins(found.so_far, costs.currency)] if explain else [])]))


def _on(plan: Plan, journal: Journal, month: Month) -> dict[str, OnFor]:
    book = PoweredBook(journal)
    return {
        name: on_for(book.periods(name), month)
        for name, secondary in plan.secondaries.items()
        if is_on_demand(secondary)
    }


def _leased(journal: Journal, month: Month) -> dict[str, float]:
    made = [lease for lease in LeaseBook(journal).newest(_LEASES)[::-1] if lease.made_at is not None]
    hours = {lease.name: hours_in(lease.made_at or 0.0, lease.gone_at, month) for lease in made}
    return {name: count for name, count in hours.items() if count > 0}


def _sent(plan: Plan, month: Month) -> dict[str, Sent]:
    """What the VMs have counted; nothing, and the plan's figures hold, where that cannot be read."""
    try:
        found = FreshnessBook(plan.state_dir).sent_between(month.begin, month.until)
    except ExternalError as error:
        say(f"vcrecovery: the sync's traffic is the plan's: {error}", err=True)
        return {}
    return {service: Sent(*counted) for service, counted in found.items()}


def book_of(plan_path: Path, day: float) -> tuple[Plan, Costs, PriceBook]:
    """The plan, and its prices as a bill of that day has them. Raises UsageError without any."""
    plan = read_plan(plan_path)
    if plan.costs is None:
        raise UsageError(f"plan {plan_path} has no `costs`: who knows prices", "docs/costs.md has an example")
    sources = list(sources_of(plan.costs, plan.state_dir / "prices", lambda text: say(text, err=True)))
    return plan, plan.costs, PriceBook(sources, plan.costs.currency, day_of(day))
