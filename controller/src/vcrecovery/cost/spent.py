"""What a month has cost so far, and will have cost at its end.

Secondaries are paid for hour by hour, whoever serves, those on demand while they are on, and those that are made for a
while as long as they are there; disks and addresses by the
part of the month that is over; traffic by what the VMs have counted, and where they have not, by what the plan expects.
How long standbys have served says what VMs that are booted on failure would have cost instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from vcrecovery.core.text import size_of
from vcrecovery.cost.alternatives import secondary_lines
from vcrecovery.cost.book import ON_DEMAND, Line, Of, Owner, PriceBook
from vcrecovery.cost.month import Month, OnFor, Served
from vcrecovery.cost.prices import GIB, MONTH_HOURS, MissingPriceError, Per
from vcrecovery.plan.model import Plan

#: Hours in which was counted, before that is a forecast.
_ENOUGH = 24.0


@dataclass(frozen=True)
class Sent:
    """What a service's sync has sent in a month, and since when that is counted (perhaps since before the month)."""

    bytes: int
    since: float


@dataclass(frozen=True)
class Spent:
    """`so_far`, `forecast`: the plan's lines with the quantities of this month, and of all of it.

    `sent`: of the services whose VMs count it. `booted`: what VMs that had been booted for the failures of this month
    would have cost; None where that is unknown. `on`: of the secondaries on demand. `leased`: for how many hours those
    were there that are made for a while; without lines where the plan does not say what one costs.
    """

    month: Month
    so_far: Sequence[Line]
    forecast: Sequence[Line]
    served: Mapping[str, Served]
    booted: Decimal | None
    sent: Mapping[str, Sent]
    on: Mapping[str, OnFor] = field(default_factory=dict)
    leased: Mapping[str, float] = field(default_factory=dict)

    def is_reckoned(self, leased: str) -> bool:
        return any(line.of.name == leased for line in self.so_far)


def spent(
    plan: Plan,
    book: PriceBook,
    month: Month,
    lines: Sequence[Line],
    served: Mapping[str, Served],
    sent: Mapping[str, Sent],
    on: Mapping[str, OnFor] | None = None,
    leased: Mapping[str, float] | None = None,
) -> Spent:
    """`lines`: of this plan in an average month. Raises MissingPriceError."""
    past, whole = Decimal(str(month.past_hours)), Decimal(str(month.hours))
    counted = {name: found for name, found in sent.items() if found.since < month.until}
    so_far, forecast = [], []
    for line in lines:
        # Of a service's own, only its traffic is in a plan.
        if line.of.owner is Owner.SERVICE and line.of.name in counted:
            now, end = _counted(line, month, counted[line.of.name])
        elif line.of.owner is Owner.SECONDARY and line.while_on and on and line.of.name in on:
            now, end = _while_on(line, month, on[line.of.name])
        else:
            now, end = _in_hours(line, past, whole), _in_hours(line, whole, whole)
        so_far.append(now)
        forecast.append(end)
    # Nobody knows for how long one will be there.
    made = _leased(plan, book, leased or {}, whole)
    booted = _booted(plan, book, served)
    return Spent(month, [*so_far, *made], [*forecast, *made], served, booted, counted, on or {}, leased or {})


def _leased(plan: Plan, book: PriceBook, leased: Mapping[str, float], whole: Decimal) -> list[Line]:
    """As the template of the plan says what one costs."""
    elastic = plan.balance.elastic
    if elastic is None or elastic.template.cost is None:
        return []
    return [
        _in_hours(line, Decimal(str(hours)), whole)
        for name, hours in leased.items()
        for line in secondary_lines(plan, book, name, elastic.template.cost)
    ]


def _while_on(line: Line, month: Month, on: OnFor) -> tuple[Line, Line]:
    """Of a secondary on demand: the hours that it was on, and for the rest of the month the plan's figure."""
    whole = Decimal(str(month.hours))
    # Hours in one that is paid, and in which the plan's quantity is used.
    unit, planned_in = (Decimal(1), MONTH_HOURS) if line.price.per is Per.HOUR else (whole, whole)
    so_far = Decimal(str(on.hours)) / unit
    rest = Decimal(str(month.hours - month.past_hours)) * line.quantity / planned_in
    why = f"{on.hours:.4g} hours on"
    return replace(line, quantity=so_far, why=why), replace(
        line, quantity=so_far + rest, why=f"{why}, going on as planned"
    )


def _counted(line: Line, month: Month, sent: Sent) -> tuple[Line, Line]:
    """The traffic so far, and at the month's end; the plan's figure stands for hours in which nobody has counted."""
    counted = (month.until - max(sent.since, month.begin)) / 3600
    before, left = month.past_hours - counted, month.hours - month.past_hours
    planned = line.quantity / Decimal(str(month.hours))
    found = Decimal(sent.bytes) / GIB
    so_far = found + planned * Decimal(str(before))
    # What a first sync sends in an hour would be no forecast.
    an_hour = found / Decimal(str(counted)) if counted >= _ENOUGH else planned
    why = f"{size_of(sent.bytes)} counted" + (
        f", and {line.why} in the {before:.0f} hours before" if before >= 1 else ""
    )
    expected = so_far + an_hour * Decimal(str(left))
    return replace(line, quantity=so_far, why=why), replace(line, quantity=expected, why=f"{why}, going on so")


def _in_hours(line: Line, hours: Decimal, whole: Decimal) -> Line:
    """The line's quantity for so many hours of a month that has `whole`."""
    if line.price.per is Per.HOUR:
        count = hours * line.quantity / MONTH_HOURS
        return replace(line, quantity=count, why=f"{float(count):.4g} hours")
    part = hours / whole
    why = line.why if part == 1 else f"{line.why}, {float(part):.0%} of it"
    return replace(line, quantity=line.quantity * part, why=why)


def _booted(plan: Plan, book: PriceBook, served: Mapping[str, Served]) -> Decimal | None:
    amount = Decimal(0)
    for name, service in plan.services.items():
        hours = Decimal(str(served[name].hours))
        if not hours:
            continue
        if service.cost is None:
            return None
        try:
            offer = book.offer(service.cost, ON_DEMAND)
        except MissingPriceError:
            return None
        # A year's lines are spread over twelve months: here they are of one.
        amount += sum((line.a_year for line in book.machine_lines(Of(Owner.SERVICE, name), offer, hours)), Decimal(0))
    return amount
