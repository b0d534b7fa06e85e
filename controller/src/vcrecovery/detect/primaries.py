"""What the hypervisors have said of each primary: where it is, what it does, and what that was before."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from vcrecovery.core.cpu import CpuSample, with_sample
from vcrecovery.core.domain import DomainEvent, DomainReading, DomainUsage
from vcrecovery.core.meaning import Meaning, meaning_of
from vcrecovery.core.power import Power
from vcrecovery.core.sighting import OffTime, Place, Sighting, find, sighted, still_off, worth_writing
from vcrecovery.core.verdict import MIGRATION_TAKES
from vcrecovery.plan.model import Plan

#: Seconds without a watcher, beyond those in which the journal is told, after which anything may have happened.
UNWATCHED_AFTER = 180.0
#: Seconds that a VM needs at least to be moved to another hypervisor, by whoever finds that it has to be.
MOVE_TAKES = 60.0
#: Seconds after which a hypervisor that does not answer is known to be down, and nobody moves anything there.
LONG_DOWN = 600.0
_NOT_ASKED_YET = DomainReading(Power.UNREACHABLE, detail="it has not answered yet")


@dataclass
class Primary:
    """One primary. Times are wall-clock seconds in what the journal keeps (`seen`, `off`), monotonic elsewhere."""

    uuid: str
    home: str
    #: What each hypervisor said last that has, or had, the VM; and when that was read.
    readings: dict[str, DomainReading] = field(default_factory=dict)
    read_at: dict[str, float] = field(default_factory=dict)
    place: Place = field(init=False)
    samples: tuple[CpuSample, ...] = ()
    began_at: float | None = None
    stalled_since: float | None = None
    twice_since: float | None = None
    seen: Sighting | None = None
    #: What the journal has of it.
    written: Sighting | None = None
    off: OffTime | None = None
    ended_off: OffTime | None = None

    def __post_init__(self) -> None:
        self.place = Place(self.home, _NOT_ASKED_YET)

    @property
    def reading(self) -> DomainReading:
        return self.place.reading

    @property
    def meaning(self) -> Meaning:
        return meaning_of(self.reading.power, self.reading.reason)


class Primaries:
    """All primaries of a plan. Says nothing and decides nothing; not for several threads at once."""

    def __init__(self, plan: Plan, homes: Mapping[str, str], now: Callable[[], float], monotonic: Callable[[], float]):
        self._plan = plan
        self._now, self._monotonic = now, monotonic
        self._all = {name: Primary(str(s.primary.uuid), homes[name]) for name, s in plan.services.items()}
        self._by_vm = {primary.uuid: name for name, primary in self._all.items()}
        #: Hypervisors that do not answer, with what is known of that; at first none has.
        self._away: dict[str, DomainReading] = dict.fromkeys(plan.hypervisors, _NOT_ASKED_YET)
        self._back_at: dict[str, float] = {}
        #: When each was first not heard, also after it is back; at the earliest at the start.
        self._away_since: dict[str, float] = {}
        self._started = now()
        self._keep = max(plan.detection.cpu_zero_for, plan.detection.cpu_high_for)

    def __getitem__(self, service: str) -> Primary:
        return self._all[service]

    def service_of(self, uuid: str) -> str | None:
        return self._by_vm.get(uuid)

    def on(self, host: str) -> list[str]:
        """The services whose primaries are there, or were."""
        return [name for name, primary in self._all.items() if primary.place.host == host or host in primary.readings]

    def asked(self, service: str, seen: Sighting | None) -> bool:
        """Whether the hypervisors that have a say in it have answered, or failed to, since the start.

        Where the one that had it does not have it any more, or it may have been moved, those are all of them.
        """
        primary = self._all[service]
        missed = primary.meaning in (Meaning.GONE, Meaning.MIGRATED)
        others = primary.place.silent if missed else self.maybe_on(service, seen)
        return all(self._away.get(host) is not _NOT_ASKED_YET for host in (primary.place.host, *others))

    # -- what comes in -----------------------------------------------------------------------------------------

    def happened(self, host: str, event: DomainEvent, reading: DomainReading, at: float) -> str | None:
        """A hypervisor has reported an event, and said this of the VM then, at `at`. The service, if it is one."""
        name = self._by_vm.get(event.uuid)
        if name is not None:
            self._all[name].read_at[host] = at
            self._note(name, host, reading, event)
        return name

    def began(self, host: str, uuid: str) -> str | None:
        """The VM was started there, or reboots: whatever was before, it ran."""
        name = self._by_vm.get(uuid)
        if name is not None:
            primary = self._all[name]
            primary.samples, primary.began_at = (), self._monotonic()
            # Elsewhere it may be the copy that a migration fills.
            if primary.place.host == host:
                self._see(primary, DomainReading(Power.RUNNING), host)
        return name

    def lost(self, host: str, detail: str) -> list[str]:
        """Nothing is heard of the hypervisor any more. Its services."""
        answered = host not in self._away
        if answered or self._away[host] is _NOT_ASKED_YET:
            self._away_since[host] = self._monotonic()
        self._away[host] = DomainReading(Power.UNREACHABLE, detail=detail)
        concerned = self.on(host)
        for name in concerned:
            primary = self._all[name]
            # It may be started, or started again, before anybody listens.
            primary.samples, primary.began_at = (), None
            self._forget(primary, host, detail)
        if answered:
            self._find_all()
        return concerned

    def heard(self, host: str, asked_at: float, at: float, usage: Mapping[str, DomainUsage]) -> list[str]:
        """The hypervisor's answer to a question of `asked_at`. The services that it concerns."""
        if self._away.pop(host, None) is not None:
            self._back_at[host] = at
            self._away_since.setdefault(host, at)
            self._find_all()
        concerned = dict.fromkeys(self.on(host))
        for uuid, found in usage.items():
            name = self._by_vm[uuid]
            concerned[name] = None
            primary = self._all[name]
            if primary.read_at.get(host, float("-inf")) <= asked_at:
                self._note(name, host, found.reading, None)
            if primary.place.host == host:
                runs = found.reading.power is Power.RUNNING
                sample = CpuSample(at, found.cpu_time, found.vcpus)
                primary.samples = with_sample(primary.samples, sample, self._keep) if runs else ()
        for name in concerned:
            primary = self._all[name]
            if primary.uuid not in usage and primary.read_at.get(host, float("-inf")) <= asked_at:
                self._note(name, host, DomainReading(Power.ABSENT, detail=self._unknown(primary)), None)
        return list(concerned)

    def forget(self, service: str, detail: str) -> None:
        """What its hypervisor said before counts no more. What it says next does, also if it is the same."""
        primary = self._all[service]
        self._forget(primary, primary.place.host, detail)

    # -- what follows from it ----------------------------------------------------------------------------------

    def starting(self, service: str) -> str:
        """How its hypervisor, which is back, will start a VM that is off by itself, while it has time for that."""
        place = self._all[service].place
        how = place.reading.starts_by_itself
        if not how or place.host in self._away:
            return how
        back_at = self._back_at.get(place.host)
        in_time = back_at is not None and self._monotonic() - back_at < self._plan.detection.autostart_within
        return how if in_time else ""

    def may_boot(self, service: str, grace: float) -> bool:
        """Whether it was started within `grace` seconds, as far as is known.

        Where nobody heard its start, as before the watcher's own, or while its hypervisor was away, its CPUs tell: who
        has used them for longer than that has run for longer.
        """
        primary = self._all[service]
        if primary.began_at is not None:
            return self._monotonic() - primary.began_at < grace
        newest = primary.samples[-1] if primary.samples else None
        return newest is None or newest.used < grace * 1e9 * newest.vcpus

    def unwatched(self, service: str, seen: Sighting | None) -> bool:
        """Whether nobody has looked for long after it was `seen` last, by an earlier controller."""
        return self._all[service].seen is None and seen is not None and self._started - seen.at > UNWATCHED_AFTER

    def maybe_on(self, service: str, seen: Sighting | None) -> tuple[str, ...]:
        """Silent hypervisors to which it may have been moved unseen.

        One that nobody knows may be on any of them. One that is off may have been moved while its own was silent too:
        not in a moment, and not to one that had been down for long by then.
        """
        primary, host = self._all[service], self._all[service].place.host
        if primary.meaning is Meaning.GONE:
            return primary.place.silent
        if primary.seen is None:
            return primary.place.silent if self.unwatched(service, seen) else ()
        away, back = self._away_since.get(host), self._back_at.get(host)
        if away is None or back is None or back - away < MOVE_TAKES:
            return ()
        return tuple(name for name in primary.place.silent if self._away_since.get(name, -math.inf) > away - LONG_DOWN)

    @property
    def silent(self) -> frozenset[str]:
        """The hypervisors that do not answer."""
        return frozenset(host for host, said in self._away.items() if said is not _NOT_ASKED_YET)

    def runs_on(self, service: str) -> tuple[str, ...]:
        """The hypervisors on which it runs, if there are several, and not only while it is migrated."""
        primary = self._all[service]
        since = primary.twice_since
        if since is None or self._monotonic() - since < MIGRATION_TAKES:
            return ()
        running = {host for host, said in primary.readings.items() if said.power is Power.RUNNING}
        return tuple(host for host in self._plan.hypervisors if host in running)

    def news(self, service: str) -> tuple[Sighting, OffTime | None] | None:
        """What the journal has to learn; `told` when it has."""
        primary = self._all[service]
        if primary.seen is None or not (primary.ended_off or worth_writing(primary.written, primary.seen)):
            return None
        return primary.seen, primary.ended_off or primary.off

    def told(self, service: str) -> None:
        primary = self._all[service]
        primary.written, primary.ended_off = primary.seen, None

    # -- inside ------------------------------------------------------------------------------------------------

    def _unknown(self, primary: Primary) -> str:
        one = len(self._plan.hypervisors) == 1
        return (
            f"hypervisor {primary.home} does not know VM {primary.uuid}"
            if one
            else f"no hypervisor knows VM {primary.uuid}"
        )

    def _forget(self, primary: Primary, host: str, detail: str) -> None:
        # Of a transient VM that has ended, only what was known says how.
        known = primary.readings.get(host)
        primary.readings[host] = DomainReading(Power.UNREACHABLE, known.reason if known else "", detail)
        self._find(primary)

    def _note(self, service: str, host: str, reading: DomainReading, event: DomainEvent | None) -> None:
        primary = self._all[service]
        if reading.power in (Power.ABSENT, Power.UNREACHABLE):
            # A transient VM is forgotten when it ends: only the event, or what was known before, says how.
            known = primary.readings.get(host)
            reason = event.reason if event is not None and event.stopped else known.reason if known else ""
            reading = replace(reading, reason=reason)
        primary.readings[host] = reading
        was_on = primary.place.host
        self._find(primary)
        if primary.place.host not in (host, was_on):
            self._see(primary, primary.reading, primary.place.host)
        elif primary.place.host == host:
            # The event counts also when the hypervisor cannot be asked any more, in the middle of its shutdown.
            ended = event is not None and event.stopped and reading.power is Power.UNREACHABLE
            self._see(primary, replace(reading, power=Power.ABSENT) if ended else reading, host)

    def _find_all(self) -> None:
        """One more or less that answers may decide where any of them is."""
        for primary in self._all.values():
            self._find(primary)

    def _find(self, primary: Primary) -> None:
        """Where it is, by all that has been said."""
        said = {**{host: away for host, away in self._away.items() if host not in primary.readings}, **primary.readings}
        last = primary.seen.host if primary.seen is not None else primary.home
        order = list(dict.fromkeys([last, primary.home, *self._plan.hypervisors]))
        absent = DomainReading(Power.ABSENT, detail=self._unknown(primary))
        before, primary.place = primary.place.host, find(said, order, absent)
        if primary.place.host != before:
            primary.samples = ()
        if sum(reading.power is Power.RUNNING for reading in primary.readings.values()) < 2:
            primary.twice_since = None
        elif primary.twice_since is None:
            primary.twice_since = self._monotonic()
        if primary.meaning is not Meaning.STALLED:
            primary.stalled_since = None
        elif primary.stalled_since is None:
            primary.stalled_since = self._monotonic()

    def _see(self, primary: Primary, reading: DomainReading, host: str) -> None:
        now = self._now()
        primary.seen = sighted(primary.seen, reading.power, reading.reason, host, now)
        before, primary.off = primary.off, still_off(primary.off, meaning_of(reading.power, reading.reason), now)
        if before is not None and primary.off is None:
            primary.ended_off = before
