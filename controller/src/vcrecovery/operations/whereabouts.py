"""Finds primaries: a VM that was migrated is looked for on every hypervisor of the plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from vcrecovery.core.domain import DomainReading
from vcrecovery.core.meaning import Meaning, meaning_of
from vcrecovery.core.power import Power
from vcrecovery.core.sighting import Place, find
from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.runtime import Runtime, ask
from vcrecovery.errors import ExternalError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from vcrecovery.drivers.libvirt import LibvirtHost
    from vcrecovery.plan.model import Plan
    from vcrecovery.store.journal import Journal

#: Seconds for which a hypervisor's list counts: all services that fail at the same time ask for it.
VALID_FOR = 2.0
#: Seconds for the other hypervisors to answer, once the one that had the VM last has, or has not.
OTHERS_WITHIN = 5.0
_ACTIVE = frozenset({Power.RUNNING, Power.PAUSED})
#: Who says this of a VM has it, and nobody else need be asked.
_HAS_IT = frozenset({Meaning.RUNS, Meaning.STOPPING, Meaning.SUSPENDED})
_Listing = Mapping[str, DomainReading]


class Whereabouts:
    """Where the primaries are. The others are asked when the hypervisor that had one last has it no more.

    `hosts` gives the drivers, once they are needed.
    """

    def __init__(
        self,
        plan: Plan,
        clock: Clock,
        journal: Journal,
        hosts: Callable[[], Mapping[str, LibvirtHost]],
        runtime: Runtime,
    ) -> None:
        self._plan = plan
        self._clock = clock
        self._journal = journal
        self._hosts = hosts
        self._runtime = runtime
        #: Hypervisors that are known not to answer, by whoever watches them.
        self.silent: frozenset[str] = frozenset()
        self._lock = runtime.lock()
        self._listings: dict[str, tuple[float, Future[_Listing]]] = {}

    def home(self, service: str) -> str:
        """The hypervisor on which the primary was seen last; the plan's until it was seen."""
        return self._known(self._journal.last_host(service), service)

    def homes(self) -> dict[str, str]:
        """The same for every service."""
        last = self._journal.last_hosts()
        return {name: self._known(last.get(name), name) for name in self._plan.services}

    def _known(self, host: str | None, service: str) -> str:
        plan = self._plan
        return host if host in plan.hypervisors and host else plan.services[service].primary.hypervisor

    def on(self, hosts: set[str]) -> list[str]:
        """The services whose primaries are on these hypervisors, in the plan's order."""
        return [name for name, host in self.homes().items() if host in hosts]

    def may_be_on(self, host: str) -> list[str]:
        """The services whose primaries may be there: where only Zabbix looks, nobody writes down where they go."""
        if self._plan.detection.embedded:
            return self.on({host})
        asked = [self._ask(other) for other in self._others(host)]
        lists = [question.result() for question in asked if _answered(question, OTHERS_WITHIN)]
        elsewhere = {uuid for found in lists for uuid, said in found.items() if said.power in _ACTIVE}
        uuids = {name: str(service.primary.uuid) for name, service in self._plan.services.items()}
        return [name for name, uuid in uuids.items() if uuid not in elsewhere]

    def find(self, service: str) -> Place:
        """Where it is now. Hypervisors that do not answer within a time, or are known not to, count as silent."""
        uuid, home = str(self._plan.services[service].primary.uuid), self.home(service)
        others = self._others(home)
        if home in self.silent:
            for host in others:
                self._ask(host)
        try:
            reading = self._hosts()[home].read(uuid)
        except ExternalError as error:
            reading = DomainReading(Power.UNREACHABLE, detail=str(error))
        if meaning_of(reading.power, reading.reason) in _HAS_IT or not others:
            return Place(home, reading)
        found = {home: reading, **self._readings(uuid, others, OTHERS_WITHIN)}
        absent = DomainReading(Power.ABSENT, detail=reading.detail)
        # The plan's comes before others that have it no more than that.
        order = dict.fromkeys([home, self._plan.services[service].primary.hypervisor, *others])
        return find(found, list(order), absent)

    def copies(self, service: str, host: str) -> tuple[list[str], list[str]]:
        """Hypervisors beside `host` on which the VM is active from now on, and those that do not say."""
        uuid = str(self._plan.services[service].primary.uuid)
        said = self._readings(uuid, self._others(host), OTHERS_WITHIN, self._clock.steady())
        active = [other for other, reading in said.items() if reading.power in _ACTIVE]
        return active, [other for other, reading in said.items() if reading.power is Power.UNREACHABLE]

    def _readings(
        self, uuid: str, hosts: Sequence[str], patience: float, not_before: float = -math.inf
    ) -> dict[str, DomainReading]:
        """What these hypervisors say of a VM, without those that do not have it."""
        deadline = self._clock.steady() + patience
        asked = {host: self._ask(host, not_before) for host in hosts}
        found: dict[str, DomainReading] = {}
        for host, question in asked.items():
            # Who is known to be silent has said so by now, or is not waited for.
            left = 0.0 if host in self.silent else max(0.0, deadline - self._clock.steady())
            reading = _said(question, uuid, left)
            if reading is not None:
                found[host] = reading
        return found

    def _others(self, host: str) -> list[str]:
        return [name for name in self._plan.hypervisors if name != host]

    def _ask(self, host: str, not_before: float = -math.inf) -> Future[_Listing]:
        """What this hypervisor has; one question for all who ask at about the same time, and none asked before."""
        now = self._clock.steady()
        with self._lock:
            at, question = self._listings.get(host, (now, None))
            if question is None or at < not_before or (question.done() and now - at > VALID_FOR):
                question = ask(self._runtime, lambda: self._list(host), f"list-{host}")
                self._listings[host] = (now, question)
            return question

    def _list(self, host: str) -> _Listing:
        try:
            return {guest.uuid: guest.reading for guest in self._hosts()[host].guests()}
        except ExternalError:
            raise
        except Exception as error:
            raise ExternalError(f"hypervisor {host} cannot be asked: {type(error).__name__}: {error}") from error


def _answered(question: Future[_Listing], patience: float) -> bool:
    try:
        return question.exception(patience) is None
    except TimeoutError:
        return False


def _said(question: Future[_Listing], uuid: str, patience: float) -> DomainReading | None:
    """None for a VM that it does not have."""
    try:
        return question.result(patience).get(uuid)
    except ExternalError as error:
        return DomainReading(Power.UNREACHABLE, detail=str(error))
    except TimeoutError:
        return DomainReading(Power.UNREACHABLE, detail="no answer yet")
