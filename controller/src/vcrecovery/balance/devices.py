"""From two readings of a machine's disks and network cards to what they had to do in between. Pure.

What cannot be said is None, and not zero: a counter that began anew, a speed that a card does not tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class DiskReading:
    """Since its machine's boot. `waited`: seconds that all its completed reads and writes took, together.

    `busy`: seconds in which at least one was under way.
    """

    completed: int
    bytes: int
    waited: float
    busy: float


@dataclass(frozen=True)
class CardReading:
    """Bytes and packets since it was there. `speed`: bytes a second in each direction; None where nobody tells."""

    received: int
    sent: int
    dropped: int
    speed: float | None = None


@dataclass(frozen=True)
class DiskLoad:
    """Of the disk for which most was waited. `latency`: mean seconds for each read or write. `busy`: from 0 to 1.

    `rate`: bytes a second of all disks.
    """

    name: str
    latency: float
    busy: float
    rate: float


@dataclass(frozen=True)
class NetworkLoad:
    """Of all cards, each second. `share`: of the busiest direction of the busiest card whose `speed` is known."""

    received: float
    sent: float
    dropped: float
    share: float | None = None
    speed: float | None = None


@dataclass(frozen=True)
class Traffic:
    """Of a container, bytes each second. `disk`: read and written."""

    disk: float | None = None
    received: float | None = None
    sent: float | None = None

    @property
    def network(self) -> float | None:
        """Of the direction in which there is more."""
        return None if self.received is None or self.sent is None else max(self.received, self.sent)


def disk_load(
    before: Mapping[str, DiskReading] | None, after: Mapping[str, DiskReading] | None, seconds: float
) -> DiskLoad | None:
    found = [
        (own.waited - then.waited, name, own.completed - then.completed, own.busy - then.busy, own.bytes - then.bytes)
        for name, own in (after or {}).items()
        if (then := (before or {}).get(name)) is not None
    ]
    if not found or any(min(one[0], *one[2:]) < 0 for one in found):
        return None
    # One that hangs completes nothing: it was waited for, all the time.
    waited, name, completed, busy, _ = max(found, key=lambda one: one[0] if one[2] else one[3])
    latency = waited / completed if completed else busy
    return DiskLoad(name, latency, min(1.0, busy / seconds), sum(one[4] for one in found) / seconds)


def network_load(
    before: Mapping[str, CardReading] | None, after: Mapping[str, CardReading] | None, seconds: float
) -> NetworkLoad | None:
    found = [
        (own.received - then.received, own.sent - then.sent, own.dropped - then.dropped, own.speed)
        for name, own in (after or {}).items()
        if (then := (before or {}).get(name)) is not None
    ]
    if not found or any(min(received, sent, dropped) < 0 for received, sent, dropped, _ in found):
        return None
    share, speed = max(
        ((max(received, sent) / seconds / speed, speed) for received, sent, _, speed in found if speed),
        default=(None, None),
    )
    return NetworkLoad(
        sum(received for received, *_ in found) / seconds,
        sum(sent for _, sent, *_ in found) / seconds,
        sum(dropped for _, _, dropped, _ in found) / seconds,
        share,
        speed,
    )
