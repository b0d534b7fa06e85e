"""What a month has cost so far, and will have cost at its end.

Secondaries are paid for hour by hour, whoever serves; disks, addresses and traffic by the part of the month that is
over. How long standbys have served says what VMs that are booted on failure would have cost instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from vcrecovery.cost.book import ON_DEMAND, Line, Of, Owner, PriceBook
from vcrecovery.cost.month import Month, Served
from vcrecovery.cost.prices import MONTH_HOURS, MissingPriceError, Per
from vcrecovery.plan.model import Plan


@dataclass(frozen=True)
class Spent:
    """`so_far`, `forecast`: the plan's lines with the quantities of this month, and of all of it.

    `booted`: what VMs that had been booted for the failures of this month would have cost; None where that is unknown.
    """

    month: Month
    so_far: Sequence[Line]
    forecast: Sequence[Line]
    served: Mapping[str, Served]
    booted: Decimal | None


def spent(plan: Plan, book: PriceBook, month: Month, lines: Sequence[Line], served: Mapping[str, Served]) -> Spent:
    """`lines`: of this plan in an average month. Raises as `PriceBook.offer`."""
    past, whole = Decimal(str(month.past_hours)), Decimal(str(month.hours))
    return Spent(
        month,
        [_in_hours(line, past, whole) for line in lines],
        [_in_hours(line, whole, whole) for line in lines],
        served,
        _booted(plan, book, served),
    )


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
