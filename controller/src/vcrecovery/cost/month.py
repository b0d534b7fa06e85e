"""A calendar month: how long it is where the operator is, how much of it is over, and who served in it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, tzinfo

from vcrecovery.core.episode import Episode, Outcome
from vcrecovery.core.service_state import Side

_MONTH = re.compile(r"(\d{4})-(\d{2})")


@dataclass(frozen=True)
class Month:
    """Seconds since the epoch (of Unix): its begin, its end, and up to when it is over."""

    name: str
    begin: float
    end: float
    until: float

    @property
    def hours(self) -> float:
        """All of it: a month in which clocks are changed is an hour longer or shorter."""
        return (self.end - self.begin) / 3600

    @property
    def past_hours(self) -> float:
        return max(0.0, self.until - self.begin) / 3600

    @property
    def is_over(self) -> bool:
        return self.until >= self.end


def month_of(name: str | None, now: float, zone: tzinfo | None = None) -> Month:
    """`2026-11`; None: the current one. `zone`: None for the machine's own. Raises ValueError."""
    here = datetime.fromtimestamp(now, zone).astimezone(zone)
    year, number = here.year, here.month
    if name is not None:
        if (match := _MONTH.fullmatch(name)) is None or not (1 <= int(match[2]) <= 12 and int(match[1]) >= 1970):
            raise ValueError(f"{name!r:.40} is no month; write {year}-{number:02}")
        year, number = int(match[1]), int(match[2])
    after = (year + number // 12, number % 12 + 1)
    begin, end = _midnight(year, number, zone), _midnight(*after, zone)
    if begin > now:
        raise ValueError(f"{year}-{number:02} has not begun yet")
    return Month(f"{year}-{number:02}", begin, end, min(now, end))


def _midnight(year: int, month: int, zone: tzinfo | None) -> float:
    # Naive means here, by the machine's own zone.
    return datetime(year, month, 1, tzinfo=zone).timestamp()


def day_of(at: float, zone: tzinfo | None = None) -> date:
    return datetime.fromtimestamp(at, zone).astimezone(zone).date()


@dataclass(frozen=True)
class Served:
    """For how many hours a standby served in a month, by what the journal knows.

    `open_ended`: it was returned by hand since, and nobody has written down when; up to then is not counted.
    `moves`: to another secondary.
    """

    hours: float
    times: int
    open_ended: bool = False
    moves: int = 0


def served(history: Iterable[Episode], side: Side, month: Month) -> Served:
    """`history`: a service's episodes, in any order; `side`: who serves now. What never ended has changed nothing."""
    # One that waits serves nowhere, wherever it is moved to.
    ended = [e for e in history if e.outcome is Outcome.DONE and e.request.leaves is None]
    done = [(e.closed_at, e.request) for e in ended if e.closed_at]
    moved = sum(request.to is not None and month.begin <= at < month.until for at, request in done)
    hours, times, since = 0.0, 0, None
    for at, back in sorted((at, request.back) for at, request in done):
        if back and since is not None:
            hours += _overlap(since, at, month)
            times += _overlap(since, at, month) > 0
            since = None
        elif not back and since is None:
            since = at
    if since is not None and side is Side.STANDBY:
        rest = _overlap(since, month.until, month)
        hours, times = hours + rest, times + (rest > 0)
    open_ended = since is not None and side is Side.PRIMARY and since < month.until
    return Served(hours, times, open_ended, moved)


@dataclass(frozen=True)
class OnFor:
    """For how many hours of a month a secondary on demand was on, and how often it booted in it."""

    hours: float
    boots: int


def on_for(periods: Iterable[tuple[float, float | None]], month: Month) -> OnFor:
    """`periods`: when it was powered on, and off; None while it is on."""
    found = list(periods)
    hours = sum(hours_in(on, off, month) for on, off in found)
    return OnFor(hours, sum(month.begin <= on < month.until for on, _ in found))


def hours_in(begin: float, end: float | None, month: Month) -> float:
    """Of a time that may go on (None), so many are in the part of the month that is over."""
    return _overlap(begin, month.until if end is None else end, month)


def _overlap(begin: float, end: float, month: Month) -> float:
    """Hours of the month."""
    return max(0.0, min(end, month.until) - max(begin, month.begin)) / 3600
