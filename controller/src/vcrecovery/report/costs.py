"""What protection costs, as a table, with each sum's origin, and as data. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from vcrecovery.core.text import size_of, span
from vcrecovery.cost.alternatives import Alternative, Way, alternatives
from vcrecovery.cost.book import Line, PriceBook
from vcrecovery.cost.month import Month, day_of
from vcrecovery.cost.spent import Sent, Spent
from vcrecovery.cost.split import Part, split
from vcrecovery.plan.costs import Costs
from vcrecovery.plan.model import Plan
from vcrecovery.report.aligned import aligned

_CENT = Decimal("0.01")


@dataclass(frozen=True)
class CostView:
    """`parts`: who pays for what of this plan. `failed`: for how long in a year services run from their standbys."""

    currency: str
    on: date
    failed: float
    alternatives: Sequence[Alternative]
    parts: Sequence[Part]

    @property
    def lines(self) -> list[Line]:
        return [line for entry in self.alternatives for line in entry.lines]


def view_of(plan: Plan, costs: Costs, book: PriceBook, providers: int) -> CostView:
    """Raises as `alternatives` does."""
    found = alternatives(plan, book, providers)
    return CostView(costs.currency, book.on, costs.failed, found, split(plan, found[0].lines))


def money(amount: Decimal) -> str:
    return f"{amount.quantize(_CENT, ROUND_HALF_EVEN):,}"


def table(view: CostView) -> list[str]:
    """What everything costs; this plan first."""
    dates = sorted({line.price.as_of for line in view.lines})
    of_when = "" if not dates else f", at prices of {_days(dates)}{_how_old(dates[0], view.on)}"
    this = view.alternatives[0].a_year
    rows = [("", "a month", "a year", "a year, against this plan")]
    for entry in view.alternatives:
        month, year = entry.a_month, entry.a_year
        if month is None or year is None:
            rows.append((entry.title, "-", "-", entry.unknown))
            continue
        against = "" if entry.way is Way.THIS_PLAN or this is None else _signed(year - this)
        rows.append((entry.title, money(month), money(year), against))
    lines = [f"in {view.currency}{of_when}", "", *aligned(rows)]
    if notes := [note for entry in view.alternatives for note in entry.notes]:
        lines += ["", *notes]
    if len(view.parts) > 1:
        paid = [("of this plan", "a month", "a year")]
        paid += [(part.whose, money(part.a_month), money(part.a_month * 12)) for part in view.parts]
        lines += ["", *aligned(paid)]
    return lines


def origins(view: CostView) -> list[str]:
    """Where each sum comes from: quantity, price, who says so, and of when."""
    found = []
    for entry in view.alternatives:
        found += ["", f"{entry.title}: {entry.unknown or f'{money(entry.a_month or Decimal(0))} a month'}"]
        found += lines_origins(entry.lines, view.currency)
    return found


def lines_origins(lines: Sequence[Line], currency: str) -> list[str]:
    return aligned([_origin(line, currency) for line in lines], right=(3,))


def month_table(spent: Spent, currency: str, so_far: Sequence[Part], forecast: Sequence[Part]) -> list[str]:
    """What the month has cost, who pays for it, and how long standbys have served."""
    month = spent.month
    over = "" if month.is_over else f" ({month.past_hours:.0f} of {month.hours:.0f} hours)"
    heads = ("", "so far", "forecast") if not month.is_over else ("", "cost", "")
    rows = [heads]
    for past, whole in zip(so_far, forecast, strict=True):
        rows.append((past.whose, money(past.a_month), "" if month.is_over else money(whole.a_month)))
    sums = [money(sum((line.a_month for line in lines), Decimal(0))) for lines in (spent.so_far, spent.forecast)]
    rows.append(("together", sums[0], "" if month.is_over else sums[1]))
    lines = [f"{month.name}{over}, in {currency}", "", *aligned(rows), ""]
    for name, on in spent.on.items():
        lines.append(f"{name}: on for {span(on.hours * 3600)}, booted {_times(on.boots)}")
    for name, hours in spent.leased.items():
        why = "" if spent.is_reckoned(name) else ": not counted, the plan has no balance.elastic.template.cost"
        lines.append(f"{name}: there for {span(hours * 3600)}{why}")
    for name, served in spent.served.items():
        if served.times:
            moved = f"; moved to another secondary {_times(served.moves)}" if served.moves else ""
            lines.append(f"{name}: its standby served for {span(served.hours * 3600)}, {_times(served.times)}{moved}")
        if served.open_ended:
            lines.append(f"{name}: it was returned by hand, at a time that nobody has written down: not counted")
    lines += [
        f"{name}: its sync has sent {size_of(sent.bytes)}{_since(sent, month)}" for name, sent in spent.sent.items()
    ]
    if not any(served.times for served in spent.served.values()):
        lines.append("no standby served")
    elif spent.booted is not None:
        lines.append(f"VMs booted for these failures would have cost {money(spent.booted)}, beside their backups")
    return lines


def month_as_data(spent: Spent, currency: str, so_far: Sequence[Part], forecast: Sequence[Part]) -> dict[str, Any]:
    month = spent.month
    return {
        "currency": currency,
        "month": month.name,
        "hours": month.hours,
        "past_hours": month.past_hours,
        "so_far": _sum(sum((line.a_month for line in spent.so_far), Decimal(0))),
        "forecast": _sum(sum((line.a_month for line in spent.forecast), Decimal(0))),
        "lines": [_line_as_data(line) for line in spent.so_far],
        "parts": [
            {"whose": past.whose, "so_far": _sum(past.a_month), "forecast": _sum(whole.a_month)}
            for past, whole in zip(so_far, forecast, strict=True)
        ],
        "served": [{"service": name, **asdict(served)} for name, served in spent.served.items()],
        "sent": [{"service": name, **asdict(sent)} for name, sent in spent.sent.items()],
        "on": [{"secondary": name, **asdict(on)} for name, on in spent.on.items()],
        "leased": [{"secondary": name, "hours": hours} for name, hours in spent.leased.items()],
        "booted_instead": _sum(spent.booted),
    }


def _since(sent: Sent, month: Month) -> str:
    return f" since {day_of(sent.since)}" if sent.since > month.begin else ""


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _origin(line: Line, currency: str) -> tuple[str, ...]:
    said = f"{line.price.source}, {line.price.as_of}"
    return (f"  {line.of}", line.price.what, _product(line, currency), money(line.a_month), said)


def _product(line: Line, currency: str) -> str:
    price = line.price
    text = f"{line.why} x {price.amount:.6g} {price.currency} per {price.per}"
    if price.currency != currency:
        text += f" x {line.rate.quote_per_base:.6g} ({line.rate.on})"
    return text + (f" / {line.shared_by}" if line.shared_by > 1 else "")


def as_data(view: CostView) -> dict[str, Any]:
    """Sums are strings, as they are exact."""
    return {
        "currency": view.currency,
        "on": view.on.isoformat(),
        "failed_seconds_a_year": view.failed,
        "alternatives": [
            {
                "way": entry.way.value,
                "title": entry.title,
                "month": _sum(entry.a_month),
                "year": _sum(entry.a_year),
                "unknown": entry.unknown or None,
                "lines": [_line_as_data(line) for line in entry.lines],
            }
            for entry in view.alternatives
        ],
        "parts": [{"whose": part.whose, "month": _sum(part.a_month)} for part in view.parts],
    }


def as_csv(view: CostView) -> str:
    """A row for each line of each alternative."""
    return lines_as_csv([(entry.way.value, line) for entry in view.alternatives for line in entry.lines], view.currency)


def lines_as_csv(lines: Sequence[tuple[str, Line]], currency: str) -> str:
    """`lines`: each with what it is part of."""
    text = io.StringIO()
    rows = [{"part_of": what, **_line_as_data(line), "bill_currency": currency} for what, line in lines]
    if rows:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return text.getvalue()


def _line_as_data(line: Line) -> dict[str, Any]:
    price = line.price
    return {
        "of": str(line.of),
        "what": price.what,
        "quantity": f"{line.quantity:f}",
        "why": line.why,
        "price": f"{price.amount:f}",
        "currency": price.currency,
        "per": price.per.value,
        "rate": f"{line.rate.quote_per_base:f}",
        "rate_on": line.rate.on.isoformat(),
        "shared_by": line.shared_by,
        "month": _sum(line.a_month),
        "source": price.source,
        "as_of": price.as_of.isoformat(),
    }


def _sum(amount: Decimal | None) -> str | None:
    return None if amount is None else str(amount.quantize(_CENT, ROUND_HALF_EVEN))


def _signed(amount: Decimal) -> str:
    return f"{'+' if amount >= 0 else '-'}{money(abs(amount))}"


def _days(dates: Sequence[date]) -> str:
    return str(dates[0]) if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"


def _how_old(oldest: date, on: date) -> str:
    years = (on - oldest).days // 365
    return f", which is {years} year{'s' if years > 1 else ''} ago" if years else ""
