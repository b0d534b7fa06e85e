"""Whether a secondary is overloaded: not by one moment, and not well again by one moment either. Pure.

It is overloaded once every load for `high_for` was at or above what is high, and well again once one is below the
target of each resource. In between it stays what it was, so that a load at the edge does not flap. A load that does not
tell what it was overloaded with is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

from vcrecovery.balance.amounts import Amounts
from vcrecovery.balance.load import Load

#: Seconds without a load after which nothing is known.
FORGOTTEN_AFTER = 90.0
#: Of a disk that is in use for less of the time nobody suffers, however long its few reads and writes take.
_HARDLY_USED = 0.1


@dataclass(frozen=True)
class Limits:
    """Shares, from 0 to 1; seconds. None: not judged."""

    cpu_high: float
    memory_high: float
    target: float
    high_for: float
    disk_latency_high: float | None = None
    network_high: float | None = None


@dataclass(frozen=True)
class Course:
    """Of one secondary; steady times. `since`: when it became overloaded; None while that is not so, or not known.

    `of`: the resources that were high last.
    """

    seen_at: float | None = None
    high_since: float | None = None
    since: float | None = None
    why: str = ""
    of: frozenset[str] = frozenset()


class _Judged(NamedTuple):
    """`share`: of what the machine has, or of what is allowed. `low`: below that it is well again."""

    resource: str
    share: float
    high: float
    low: float
    words: str

    @property
    def is_high(self) -> bool:
        return self.share >= self.high


def after(course: Course, load: Load | None, limits: Limits, now: float) -> Course:
    """`load`: None where it could not be read."""
    gone = course.seen_at is None or now - course.seen_at > FORGOTTEN_AFTER
    if gone:
        course = Course()
    judged = list(_judged(load, limits)) if load is not None else []
    if load is None or not course.of <= {one.resource for one in judged}:
        return course
    course = replace(course, seen_at=now)
    if all(one.share < one.low for one in judged):
        return Course(now)
    high = [one for one in judged if one.is_high]
    if not high:
        return replace(course, high_since=None)
    since = course.high_since if course.high_since is not None else now
    lasts = now - since >= limits.high_for
    overloaded = course.since if course.since is not None else now if lasts else None
    return Course(now, since, overloaded, _words(high) if overloaded is not None else "", _of(high))


def high_in(load: Load, limits: Limits) -> str:
    """What it has too much to do with; empty when nothing."""
    return _words([one for one in _judged(load, limits) if one.is_high])


def _of(judged: list[_Judged]) -> frozenset[str]:
    return frozenset(one.resource for one in judged)


def _words(judged: list[_Judged]) -> str:
    return " and ".join(one.words for one in judged)


def _judged(load: Load, limits: Limits) -> Iterator[_Judged]:
    """Each resource that the plan has judged, and of which it is known."""
    cpu, memory = load.shares[:2]
    yield _Judged("cpu", cpu, limits.cpu_high, limits.target, f"{100 * cpu:.0f} % of its cores")
    yield _Judged("memory", memory, limits.memory_high, limits.target, f"{100 * memory:.0f} % of its memory")
    if load.disk is not None and (waits := _of_allowed_latency(load, limits)) is not None:
        words = f"{1000 * load.disk.latency:.0f} ms for each read or write on {load.disk.name}"
        yield _Judged("disk", waits, 1.0, limits.target, words)
    if limits.network_high is not None and load.network is not None and (share := load.network.share) is not None:
        yield _Judged("network", share, limits.network_high, limits.target, f"{100 * share:.0f} % of its network")


def _of_allowed_latency(load: Load, limits: Limits) -> float | None:
    if limits.disk_latency_high is None or load.disk is None:
        return None
    return load.disk.latency / limits.disk_latency_high if load.disk.busy >= _HARDLY_USED else 0.0


# -- what the choice of moves is made by -------------------------------------------------------------------------------


def machine_amounts(load: Load, limits: Limits) -> tuple[Amounts, Amounts]:
    """What it has, and what is in use. Of what is not judged, or not known, there is enough.

    Latency counts as if it were in proportion to the bytes that are read and written: the best guess that there is.
    """
    waits = _of_allowed_latency(load, limits)
    network = load.network if limits.network_high is not None else None
    share, speed = (network.share, network.speed) if network is not None else (None, None)
    known = share is not None and speed is not None
    return (
        load.size._replace(io=inf if waits is None else 1.0, network=speed if known and speed else inf),
        load.used._replace(io=waits or 0.0, network=share * speed if known and share and speed else 0.0),
    )


def container_amounts(load: Load, name: str, limits: Limits) -> Amounts | None:
    """What it uses of that; of what is not known none. None where nothing of it is known."""
    uses = load.containers.get(name)
    if uses is None:
        return None
    own, (_, used) = load.traffic.get(name), machine_amounts(load, limits)
    network = own.network if own is not None and used.network else None
    return uses._replace(io=used.io * _share_of_disk(load, name), network=network or 0.0)


def not_told(load: Load, name: str, limits: Limits) -> str:
    """Of what it uses, what overloads the machine and nobody tells; empty where all is known."""
    own, high = load.traffic.get(name), _of([one for one in _judged(load, limits) if one.is_high])
    if "disk" in high and (own is None or own.disk is None):
        return "how much of the disks' work is its own is not known"
    if "network" in high and (own is None or own.network is None):
        return "how much of the network's traffic is its own is not known"
    return ""


def _share_of_disk(load: Load, name: str) -> float:
    """Of all that was read and written: by the machine's word, or where that is less, by its containers'."""
    own = load.traffic[name].disk if name in load.traffic else None
    together = sum(one.disk or 0.0 for one in load.traffic.values())
    of_all = max(together, load.disk.rate if load.disk is not None else 0.0)
    return own / of_all if own and of_all else 0.0
