"""What users have of each service, told to Zabbix: at each change, and again and again as a sign of life.

It is read where the watch over the ports leaves it: whatever Zabbix does, no probe is later. While Zabbix is away only
changes are queued, up to CAPACITY. What is over sooner than a request to a Zabbix that hangs is in the history alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from vcrecovery.balance.load import Load
from vcrecovery.balance.words import who_uses_most
from vcrecovery.core.health import Course, Health
from vcrecovery.detect.zabbix_way import CAPACITY, RETRY_AFTER, ZabbixWay
from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.runtime import Event
from vcrecovery.plan.monitoring import Zabbix
from vcrecovery.relay.trapper import TIMEOUT
from vcrecovery.store.load_book import Seen

#: Seconds between two looks for changes.
LOOK_EVERY = 0.25
#: Seconds between two signs of life. Zabbix raises a problem after {$VCR.WATCH.SILENT} without one.
SIGN_EVERY = 30.0
#: Zabbix makes the items of the services from a list, which it gets so often; sooner after it refused a value.
LIST_EVERY, LIST_AGAIN_AFTER = 600.0, 30.0
SAID = "what users have of the services"
#: As the value map of the template has them.
NUMBERS = {Health.ANSWERS: 0, Health.SLOW: 1, Health.DOWN: 2, Health.UNKNOWN: 3}
#: Items of the services' host beside those of each service.
SIGN, LIST, SECONDARIES = "vcr.watch", "vcr.services", "vcr.secondaries"


def listed(names: Iterable[str], macro: str = "{#SERVICE}") -> str:
    """A list from which Zabbix makes the items of each."""
    return json.dumps([{macro: name} for name in names])


@dataclass(frozen=True)
class SeenPower:
    """Of a secondary that is not always there. `power`: as the value map of the template has it; `on_for`: seconds, in
    this month."""

    power: int
    on_for: float


class Watched(Protocol):
    """What asks the services."""

    @property
    def courses(self) -> Mapping[str, Course]: ...

    def is_current(self) -> bool:
        """False when nobody asks any more: then nothing may be told."""


class ZabbixHealth:
    """Tells it until `stop` is set."""

    def __init__(
        self,
        zabbix: Zabbix,
        health: Watched,
        clock: Clock,
        secondaries: Sequence[str] = (),
        loads: Callable[[], Mapping[str, Seen]] = dict,
        powers: Callable[[], Mapping[str, SeenPower]] = dict,
    ) -> None:
        """`loads`: what is known of the `secondaries` now, and of those that were made for a while. `powers`: those
        that are not always there."""
        self._health, self._clock = health, clock
        self._secondaries, self._loads, self._powers = secondaries, loads, powers
        #: Those that Zabbix has made items of, or is about to.
        self._listed: list[str] = []
        self._way = ZabbixWay(zabbix, clock, SAID, capacity=CAPACITY, timeout=TIMEOUT, retry_after=RETRY_AFTER)
        #: Each begins as unknown, which needs no telling before the second sign of life.
        self._told: dict[str, tuple[Health, str]] = {}
        self._sign_at = clock.steady()
        self._services_at = clock.steady() + SIGN_EVERY
        self._list_at, self._listed_at = clock.steady(), float("-inf")

    def run(self, stop: Event) -> None:
        self._way.run(stop, self._read, LOOK_EVERY)

    # -- what there is to tell -------------------------------------------------------------------------------------

    def _read(self) -> None:
        if self._way.came_back:
            self._way.came_back = False
            # Whatever it missed meanwhile.
            self._sign_at = self._services_at = self._clock.steady()
        if self._way.has_refused:
            self._way.has_refused = False
            self._list_at = min(self._list_at, self._listed_at + LIST_AGAIN_AFTER)
        if not self._health.is_current():
            return
        now, at, courses = self._clock.steady(), self._clock.now(), self._health.courses
        if not self._way.away and now >= self._list_at:
            self._list_at, self._listed_at = now + LIST_EVERY, now
            self._way.put(LIST, listed(courses), at)
            self._listed = list(dict.fromkeys([*self._secondaries, *self._powers()]))
            if self._listed:
                self._way.put(SECONDARIES, listed(self._listed, "{#SECONDARY}"), at)
            # What Zabbix may have lost comes again.
            self._told.clear()
        if not self._way.away and now >= self._sign_at:
            self._sign_at = now + SIGN_EVERY
            self._way.put(SIGN, str(len(courses)), at)
        is_due = not self._way.away and now >= self._services_at
        if is_due:
            self._services_at = now + SIGN_EVERY
            self._put_loads(at)
            self._put_powers(at, now)
        for name, course in courses.items():
            health, why = self._told.get(name, (Health.UNKNOWN, ""))
            # Reasons may change at every look. Those of a time in which Zabbix was away are of no use to anybody.
            if is_due or course.health is not health or (course.why != why and not self._way.away):
                self._told[name] = course.health, course.why
                is_new = (course.health, course.why) != (health, why)
                self._put_service(name, course, at, with_reason=is_new or course.why != "")

    def _put_service(self, name: str, course: Course, at: float, *, with_reason: bool) -> None:
        # The reason first: Zabbix puts it into the name of the problem that the health starts.
        if with_reason:
            self._way.put(f"vcr.why[{name}]", course.why, at)
        self._way.put(f"vcr.health[{name}]", str(NUMBERS[course.health]), at)
        if course.seconds is not None:
            self._way.put(f"vcr.seconds[{name}]", f"{course.seconds:.6f}", at)

    def _put_loads(self, at: float) -> None:
        """Of those whose load is known, and that Zabbix has items of. The reason first, as above."""
        for name, seen in self._loads().items():
            if seen.load is None or name not in self._listed:
                continue
            overloaded = seen.since is not None
            self._way.put(f"vcr.relief[{name}]", "; ".join([seen.why, *seen.proposal]) if overloaded else "", at)
            self._way.put(f"vcr.overloaded[{name}]", str(int(overloaded)), at)
            self._way.put(f"vcr.cpu[{name}]", f"{100 * seen.load.shares.cpu:.1f}", at)
            self._way.put(f"vcr.memory[{name}]", f"{100 * seen.load.shares.memory:.1f}", at)
            self._way.put(f"vcr.uses[{name}]", who_uses_most(seen.load), at)
            for key, value in _by_the_machine(seen.load):
                self._way.put(f"{key}[{name}]", value, at)

    def _put_powers(self, at: float, now: float) -> None:
        """One that was made since the last list is put on the next one, which comes at once."""
        for name, seen in self._powers().items():
            if name not in self._listed:
                self._list_at = now
                continue
            self._way.put(f"vcr.power[{name}]", str(seen.power), at)
            self._way.put(f"vcr.onfor[{name}]", f"{seen.on_for:.0f}", at)


def _by_the_machine(load: Load) -> Iterator[tuple[str, str]]:
    """What only the machine itself tells, as far as it is known."""
    if load.stolen is not None and load.size.cpu:
        yield "vcr.steal", f"{100 * load.stolen / load.size.cpu:.1f}"
    for resource, percent in load.pressure.items():
        yield f"vcr.pressure.{resource}", f"{percent:.1f}"
    if load.disk is not None:
        yield "vcr.disklatency", f"{load.disk.latency:.6f}"
        yield "vcr.diskbusy", f"{100 * load.disk.busy:.1f}"
    if load.network is not None:
        yield "vcr.received", f"{load.network.received:.0f}"
        yield "vcr.sent", f"{load.network.sent:.0f}"
        yield "vcr.dropped", f"{load.network.dropped:.2f}"
        if load.network.share is not None:
            yield "vcr.network", f"{100 * load.network.share:.1f}"
