"""Reads what a report tells: the journal, how fresh standbys were, prices, and what needs attention now."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any

from vcrecovery.core.ages import Ages, added
from vcrecovery.cost.advice import Bear
from vcrecovery.cost.book import PriceBook
from vcrecovery.cost.sources import sources_of
from vcrecovery.errors import VCRecoveryError
from vcrecovery.operations.environment import Environment
from vcrecovery.plan.costs import Costs
from vcrecovery.plan.model import Plan
from vcrecovery.report.advice import AdviceView, Wish
from vcrecovery.report.costs import CostView, view_of
from vcrecovery.report.findings import all_findings
from vcrecovery.report.look import look
from vcrecovery.report.periodic.view import Availability, FreshnessOf, ReportView, ServicePlan
from vcrecovery.report.periodic.words import day_of
from vcrecovery.report.proposals import advice_view
from vcrecovery.report.query_pool import QueryPool
from vcrecovery.report.secondaries import of_secondaries
from vcrecovery.report.targets import Reached, of_drill, of_episode
from vcrecovery.report.watcher import of_the_watcher
from vcrecovery.store.drills import DrillBook
from vcrecovery.store.freshness_book import HOUR, KEPT, FreshnessBook
from vcrecovery.store.outages import OutageBook, Total

#: So many operations and drills are read at most, the newest: a journal may have millions.
MOST = 1000
#: The solver takes long for more services.
_MOST_ADVISED = 50
#: How many would share the secondary, in the costs' row that compares that; as `vcrecovery cost` has it.
_PROVIDERS = 4


def gather(env: Environment, begin: float, within: float) -> ReportView:
    """From `begin` up to now. `within`: seconds for what is asked outside.

    Raises ExternalError when the journal cannot be used; whatever else is missing is said in the report.
    """
    plan, now = env.plan, env.clock.now()
    services = [_of_plan(plan, name) for name in plan.services]
    operations, left_out = _operations(env, begin, now)
    drills, drills_left_out = _drills(env, begin)
    freshness, freshness_trouble = _freshness(plan, begin)
    # What both ask is read once, and when it is asked for.
    book = cache(partial(_price_book, plan.costs, plan.state_dir / "prices", day_of(now))) if plan.costs else None
    costs, cost_trouble = _costs(plan, book)
    advice, advice_trouble = _advice(env, book)
    views = look(env, list(plan.services), QueryPool(), within)
    return ReportView(
        made_at=now,
        begin=begin,
        services=services,
        findings=all_findings(views, [*of_the_watcher(env), *of_secondaries(env)]),
        operations=operations,
        left_out=left_out,
        drills=drills,
        drills_left_out=drills_left_out,
        freshness=freshness,
        freshness_trouble=freshness_trouble,
        availability=_availability(env, begin, now),
        costs=costs,
        cost_trouble=cost_trouble,
        advice=advice,
        advice_trouble=advice_trouble,
    )


def begin_of(every: str, now: float) -> float:
    """A day, week or month (`1d`, `1w`, `1mo`) before, by the local calendar: whatever its hours are."""
    here = datetime.fromtimestamp(now)  # noqa: DTZ006  local time without its offset: that of then is another one
    if every == "1mo":
        before = here.replace(day=1) - timedelta(1)
        then = before.replace(day=min(here.day, before.day))
    else:
        then = here - timedelta(days=7 if every == "1w" else 1)
    return then.timestamp()


def begin_after(before: Mapping[str, Any] | None, every: str, now: float) -> float:
    """Where a scheduled report begins: the usual time ago, or where `before`, the last scheduled one, ended.

    So one that was late, or failed, leaves no time of which none tells. `before` is a file that anybody may have
    written. No further back than there are figures.
    """
    usual, ended = begin_of(every, now), before.get("made_at") if before is not None else None
    if isinstance(ended, bool) or not isinstance(ended, int | float) or not math.isfinite(ended):
        return usual
    return min(usual, max(float(ended), now - KEPT))


def _of_plan(plan: Plan, name: str) -> ServicePlan:
    entry = plan.services[name]
    provider = entry.cost.provider if entry.cost is not None else None
    return ServicePlan(
        name,
        entry.mode.value,
        entry.max_staleness,
        provider or "",
        entry.targets.rto,
        entry.targets.rpo,
        entry.drill.every,
    )


def _operations(env: Environment, begin: float, now: float) -> tuple[list[Reached], int]:
    """The oldest first; those that are not finished too, however old."""
    episodes = env.journal.since(begin, MOST)
    left_out = max(0, env.journal.count_since(begin) - len(episodes)) if len(episodes) == MOST else 0
    found = []
    for episode in reversed(episodes):
        entry = env.plan.services.get(episode.service)
        targets = entry.targets if entry is not None else None
        found.append(
            of_episode(episode, now, targets.rto if targets else None, targets.rpo if targets else None),
        )
    return found, left_out


def _drills(env: Environment, begin: float) -> tuple[list[Reached], dict[str, int]]:
    """The oldest first; and how many of each service are not among them."""
    book = DrillBook(env.journal)
    found = book.history(None, MOST, begin)
    left_out = Counter(book.counts(begin)) if len(found) == MOST else Counter()
    left_out.subtract(drill.service for drill in found)
    targets = {name: entry.targets.rto for name, entry in env.plan.services.items()}
    return [of_drill(drill, targets.get(drill.service)) for drill in reversed(found)], dict(+left_out)


def _freshness(plan: Plan, begin: float) -> tuple[list[FreshnessOf], str]:
    """Also of services that the plan has no more."""
    try:
        book = FreshnessBook(plan.state_dir)
        of_days = book.summed(begin, lambda hour: day_of(hour * HOUR))
        book.close()
    except VCRecoveryError as error:
        return [], str(error)
    by_service: dict[str, dict[date, Ages]] = {name: {} for name in plan.services}
    for (service, day), ages in of_days.items():
        by_service.setdefault(service, {})[day] = ages
    return [FreshnessOf(name, added(days.values()), days) for name, days in by_service.items()], ""


def _availability(env: Environment, begin: float, now: float) -> list[Availability]:
    totals = OutageBook(env.journal).of_period(begin, now)
    found = [(name, totals.get(name, Total(0, 0.0))) for name in env.plan.services]
    return [Availability(name, total.count, total.seconds, total.goes_on) for name, total in found]


def _price_book(costs: Costs, cached: Path, today: date) -> PriceBook:
    """Raises ModuleNotFoundError for a kind of price list that cannot be read here."""
    return PriceBook(list(sources_of(costs, cached, lambda _: None)), costs.currency, today)


def _costs(plan: Plan, book: Callable[[], PriceBook] | None) -> tuple[CostView | None, str]:
    """What cannot be reckoned is a sentence: a price list that is gone must not take the rest of the report with it."""
    if plan.costs is None or book is None:
        return None, "The plan has no `costs`, so nothing is reckoned."
    try:
        return view_of(plan, plan.costs, book(), _PROVIDERS), ""
    except VCRecoveryError as error:
        return None, f"The cost cannot be reckoned: {error}."
    except ModuleNotFoundError as error:
        return None, f"The cost cannot be reckoned: this version cannot read such a price list ({error.name})."


def _advice(env: Environment, book: Callable[[], PriceBook] | None) -> tuple[AdviceView | None, str]:
    """What `vcrecovery plan advise` proposes without a wish; a sentence where it would propose nothing."""
    plan = env.plan
    if plan.costs is None or book is None:
        return None, ""
    if len(plan.services) > _MOST_ADVISED:
        return None, "`vcrecovery plan advise` proposes what would be cheaper or faster."
    try:
        return advice_view(env, plan.costs.currency, book(), Wish(), Bear.HYPERVISOR), ""
    except VCRecoveryError as error:
        return None, f"No proposal: {error}."
    except ModuleNotFoundError as error:
        return None, f"No proposal: this version cannot read such a price list ({error.name})."
