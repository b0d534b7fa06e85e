"""Whether a secondary is overloaded: not by one moment, and not well again by one moment either. Pure.

It is overloaded once every load for `high_for` was at or above what is high, and well again once one is below the
target of each resource. In between it stays what it was, so that a load at the edge does not flap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from vcrecovery.balance.load import Load

#: Seconds without a load after which nothing is known.
FORGOTTEN_AFTER = 90.0
_WORDS = ("of its cores", "of its memory")


@dataclass(frozen=True)
class Limits:
    """Shares, from 0 to 1; seconds."""

    cpu_high: float
    memory_high: float
    target: float
    high_for: float


@dataclass(frozen=True)
class Course:
    """Of one secondary; steady times. `since`: when it became overloaded; None while that is not so, or not known."""

    seen_at: float | None = None
    high_since: float | None = None
    since: float | None = None
    why: str = ""


def after(course: Course, load: Load | None, limits: Limits, now: float) -> Course:
    """`load`: None where it could not be read."""
    if load is None:
        gone = course.seen_at is None or now - course.seen_at > FORGOTTEN_AFTER
        return Course() if gone else course
    if course.seen_at is not None and now - course.seen_at > FORGOTTEN_AFTER:
        course = Course()
    course = replace(course, seen_at=now)
    high = high_in(load, limits)
    if max(load.shares[:2]) < limits.target:
        return Course(now)
    if not high:
        return replace(course, high_since=None)
    since = course.high_since if course.high_since is not None else now
    lasts = now - since >= limits.high_for
    overloaded = course.since if course.since is not None else now if lasts else None
    return Course(now, since, overloaded, high if overloaded is not None else "")


def high_in(load: Load, limits: Limits) -> str:
    """What it has too much to do with; empty when nothing."""
    most = (limits.cpu_high, limits.memory_high)
    found = zip(load.shares[:2], most, _WORDS, strict=True)
    return " and ".join(f"{100 * share:.0f} % {word}" for share, high, word in found if share >= high)
