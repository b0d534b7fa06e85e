"""Finds primaries: a VM that was migrated is looked for on every hypervisor of the plan."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING

from vcrecovery.drivers.libvirt import DomainReading
from vcrecovery.errors import OutsideError
from vcrecovery.recover.meaning import Meaning, meaning_of
from vcrecovery.recover.sighting import Place, find
from vcrecovery.recover.states import Power

if TYPE_CHECKING:
    from vcrecovery.recover.world import World

#: Seconds for which a hypervisor's list counts: all services that fail at the same time ask for it.
VALID_FOR = 2.0
#: Who says this of a VM has it, and nobody else needs to be waited for.
_HAS_IT = frozenset(
    {
        Meaning.RUNS,
        Meaning.STOPPING,
        Meaning.SUSPENDED,
        Meaning.STOPPED,
        Meaning.DIED,
        Meaning.NOT_STARTED,
    }
)
_ACTIVE = frozenset({Power.RUNNING, Power.PAUSED})
_Listing = Mapping[str, DomainReading]


class Whereabouts:
    """Where the primaries of `world` are. The hypervisor that had one last is asked first, and the others at once."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lock = threading.Lock()
        self._listings: dict[str, tuple[float, Future[_Listing]]] = {}

    def home(self, service: str) -> str:
        """The hypervisor on which the primary was seen last; the plan's until it was seen."""
        return self.homes().get(service, self._world.plan.services[service].primary.hypervisor)

    def homes(self) -> dict[str, str]:
        """The same for every service."""
        plan = self._world.plan
        last = self._world.journal.last_hosts()
        return {
            name: host if (host := last.get(name)) in plan.hypervisors and host else service.primary.hypervisor
            for name, service in plan.services.items()
        }

    def on(self, hosts: set[str]) -> list[str]:
        """The services whose primaries are on these hypervisors, in the plan's order."""
        return [name for name, host in self.homes().items() if host in hosts]

    def find(self, service: str) -> Place:
        """Where it is now. Takes as long as the last hypervisor that has to be waited for."""
        uuid, home = str(self._world.plan.services[service].primary.uuid), self.home(service)
        others = self._others(home)
        asked = {host: self._ask(host) for host in others}
        try:
            reading = self._world.hosts[home].read(uuid)
        except OutsideError as error:
            reading = DomainReading(Power.UNREACHABLE, detail=str(error))
        if meaning_of(reading.power, reading.reason) in _HAS_IT or not others:
            return Place(home, reading)
        found = {home: reading, **{host: _said(question, uuid) for host, question in asked.items()}}
        absent = DomainReading(Power.ABSENT, detail=reading.detail)
        # The plan's comes before others that have it no more than that.
        order = dict.fromkeys([home, self._world.plan.services[service].primary.hypervisor, *others])
        return find({host: said for host, said in found.items() if said is not None}, list(order), absent)

    def copies(self, service: str, host: str, patience: float) -> list[str]:
        """Hypervisors beside `host` on which the VM is active too, of those that say so within `patience` seconds."""
        uuid, deadline = str(self._world.plan.services[service].primary.uuid), self._world.clock.steady() + patience
        asked = {other: self._ask(other) for other in self._others(host)}
        said = {
            other: _said(question, uuid, max(0.0, deadline - self._world.clock.steady()))
            for other, question in asked.items()
        }
        return [other for other, found in said.items() if found is not None and found.power in _ACTIVE]

    def _others(self, host: str) -> list[str]:
        return [name for name in self._world.plan.hypervisors if name != host]

    def _ask(self, host: str) -> Future[_Listing]:
        """What this hypervisor has; one question for all who ask at about the same time."""
        now = self._world.clock.steady()
        with self._lock:
            at, question = self._listings.get(host, (now, None))
            if question is None or now - at > VALID_FOR:
                question = Future()
                self._listings[host] = (now, question)
                # Who does not need the answer must not wait for it, not even at the program's end.
                thread = threading.Thread(target=self._list, args=(host, question), name=f"list-{host}", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:  # this machine can start no thread for a moment
                    question.set_exception(OutsideError(f"hypervisor {host} cannot be asked: {error}"))
            return question

    def _list(self, host: str, question: Future[_Listing]) -> None:
        try:
            question.set_result({guest.uuid: guest.reading for guest in self._world.hosts[host].guests()})
        except OutsideError as error:
            question.set_exception(error)
        except Exception as error:  # noqa: BLE001  whoever waits must not wait for ever
            question.set_exception(OutsideError(f"hypervisor {host} cannot be asked: {type(error).__name__}: {error}"))


def _said(question: Future[_Listing], uuid: str, patience: float | None = None) -> DomainReading | None:
    """None for a VM that it does not have."""
    try:
        return question.result(patience).get(uuid)
    except (OutsideError, TimeoutError) as error:
        return DomainReading(Power.UNREACHABLE, detail=str(error))
