"""Where a primary is and what it does, from what each hypervisor of the plan says; and what is kept of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from vcrecovery.core.domain import DomainReading
from vcrecovery.core.meaning import TELLING, Meaning, meaning_of
from vcrecovery.core.power import OFF, Power

#: Seconds after which the journal is told again that nothing has changed: a controller that dies may lose so much.
TOLD_EVERY = 60.0
#: Seconds between two sights of a VM that is off, after which nobody knows whether it ran in between.
OFF_GAP = 30.0


@dataclass(frozen=True)
class Sighting:
    """The last time that a hypervisor said for certain what the VM does: `since` when, and until when it did."""

    power: Power
    reason: str
    since: float
    at: float
    host: str

    @property
    def meaning(self) -> Meaning:
        return meaning_of(self.power, self.reason)


def sighted(before: Sighting | None, power: Power, reason: str, host: str, now: float) -> Sighting | None:
    """What is known from now on. What says nothing for certain leaves `before` as it was."""
    if meaning_of(power, reason) not in TELLING:
        return before
    same = before is not None and (before.power, before.reason, before.host) == (power, reason, host)
    since = before.since if before is not None and same else now
    return Sighting(power, reason, since, now, host)


def worth_writing(written: Sighting | None, seen: Sighting | None) -> bool:
    """Whether the journal must learn of `seen`. A clock that was set back counts as time that has passed."""
    if seen is None:
        return False
    if written is None:
        return True
    changed = (written.power, written.reason, written.host) != (seen.power, seen.reason, seen.host)
    return changed or abs(seen.at - written.at) >= TOLD_EVERY


@dataclass(frozen=True)
class OffTime:
    """The primary was seen to be off from `since` to `until`, without a gap: it wrote nothing."""

    since: float
    until: float


def ran_for(begin: float, end: float, off: Iterable[OffTime]) -> float:
    """Seconds between the two in which the primary may have run, and written."""
    span = max(0.0, end - begin)
    off_for = sum(max(0.0, min(end, time.until) - max(begin, time.since)) for time in off)
    return max(0.0, span - off_for)


@dataclass(frozen=True)
class Place:
    """Where the primary is. `also_on`: other hypervisors where it is active too, running or paused.

    `silent`: other hypervisors that do not answer, and may have it for all that is known.
    """

    host: str
    reading: DomainReading
    also_on: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()


def find(readings: Mapping[str, DomainReading], order: Sequence[str], absent: DomainReading) -> Place:
    """The hypervisor that decides, of those in `order`: first the one that had it last.

    `readings` need not have those that do not know the VM; `absent` stands for their word. Where it runs counts most;
    then what its last hypervisor says, unless that has given it away. What is paused elsewhere meanwhile is a copy that
    waits for its memory.
    """
    said = {host: readings.get(host, absent) for host in order}
    runs, paused, silent = (
        [host for host in order if said[host].power is power]
        for power in (Power.RUNNING, Power.PAUSED, Power.UNREACHABLE)
    )
    host = order[0]
    if runs:
        host = runs[0]
    elif meaning_of(said[host].power, said[host].reason) in (Meaning.MIGRATED, Meaning.GONE):
        ended = [name for name in order[1:] if said[name].power in OFF and said[name].reason != "migrated"]
        # Of several that are silent nobody knows which has it; nor is silence alone a sign of having it.
        went = said[host].reason == "migrated" and len(silent) == 1
        host = [*paused, *ended, *(silent if went else []), host][0]
    others = tuple(name for name in (*runs, *paused) if name != host)
    return Place(host, said[host], others, tuple(name for name in silent if name != host))


def still_off(before: OffTime | None, meaning: Meaning, now: float) -> OffTime | None:
    """The time for which the primary has been seen to be off, up to now; None while that is not sure.

    One that was migrated may run where nobody looks.
    """
    if meaning not in (Meaning.STOPPED, Meaning.DIED) and not (meaning is Meaning.LOST and before is not None):
        return None
    goes_on = before is not None and 0 <= now - before.until <= OFF_GAP
    return OffTime(before.since if before is not None and goes_on else now, now)
