"""Times, ages and counts as a report writes them: in local time, with its offset, since a month may have two."""

from __future__ import annotations

from datetime import date, datetime, timedelta

from vcrecovery.core.text import span


def local(at: float) -> datetime:
    """Whatever a journal holds: what no calendar has is shown as the nearest that it has."""
    try:
        return datetime.fromtimestamp(at).astimezone()
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0 if at < 0 else 253370764800).astimezone()


def moment(at: float) -> str:
    return f"{local(at):%Y-%m-%d %H:%M:%S %z}"


def day_of(at: float) -> date:
    return local(at).date()


def days(begin: float, end: float) -> list[date]:
    """All days of the local calendar between the two, those of 23 and of 25 hours too."""
    first, last = day_of(begin), day_of(end)
    return [first + timedelta(n) for n in range((last - first).days + 1)]


def seconds(amount: float | None) -> str:
    """`0.42 s`, `4.7 s`, `3 min 12 s`; a dash where it is not known."""
    if amount is None:
        return "-"
    if amount < 1:
        return f"{amount:.2f} s"
    return f"{round(amount, 1):g} s" if amount < 99.95 else span(amount)


def count(number: int, one: str, several: str = "") -> str:
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def percent(part: float) -> str:
    """Never rounded up to 100 %: that would hide what there was."""
    return "100 %" if part >= 1 else f"{min(part, 0.99999) * 100:.3f} %"
