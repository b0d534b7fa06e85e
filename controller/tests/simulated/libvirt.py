"""A hypervisor of the simulated world, behind the interface of the real driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import libvirt

from simulated.scheduler import Scheduler
from simulated.world import Service, World
from vcrecovery.core.domain import DomainEvent, DomainReading
from vcrecovery.core.power import OFF, Power
from vcrecovery.drivers.libvirt import Guest, LibvirtHost
from vcrecovery.errors import ExternalError

#: Seconds that an answer takes, and after which one that does not come is given up.
TAKES, GIVEN_UP = 0.05, 5.0
_STATE = {
    Power.RUNNING: libvirt.VIR_DOMAIN_RUNNING,
    Power.PAUSED: libvirt.VIR_DOMAIN_PAUSED,
    Power.SHUTOFF: libvirt.VIR_DOMAIN_SHUTOFF,
    Power.CRASHED: libvirt.VIR_DOMAIN_CRASHED,
}


class SimulatedHost(LibvirtHost):
    """Answers as libvirtd on hypervisor `name` would."""

    def __init__(self, name: str, scheduler: Scheduler, world: World) -> None:
        super().__init__(name, "test:///default")
        self._scheduler = scheduler
        self._world = world
        self._listening: tuple[Callable[[str, str, str], None], Callable[[], None]] | None = None

    def _asked(self, takes: float = TAKES, within: float = GIVEN_UP) -> None:
        """Raises ExternalError where the real one would."""
        self._scheduler.takes(takes)
        services = self._world.on(self.name)
        if any(not service.hypervisor_answers for service in services):
            raise ExternalError(f"hypervisor {self.name} does not answer: no route to host", "see that libvirtd runs")
        if not self._world.answers(self.name):
            end = self._scheduler.time + within
            while self._scheduler.time < end:
                self._scheduler.sleep(min(0.25, end - self._scheduler.time))
                if self._world.answers(self.name):
                    return
            raise ExternalError(f"hypervisor {self.name} does not answer within {within:g} s", "see that libvirtd runs")

    def _of(self, uuid: str) -> Service | None:
        service = self._world.by_uuid(uuid)
        return service if service is not None and service.host == self.name else None

    def read(self, uuid: str) -> DomainReading:
        self._asked()
        if (service := self._of(uuid)) is None:
            return DomainReading(Power.ABSENT, detail=f"hypervisor {self.name} does not know VM {uuid}")
        return _guest(service).reading

    def guests(self) -> list[Guest]:
        self._asked()
        return [_guest(service) for service in self._world.on(self.name)]

    def destroy(self, uuid: str, timeout: float | None = None) -> None:
        service = self._of(uuid)
        try:
            self._asked(within=timeout or GIVEN_UP)
        except ExternalError:
            if service is not None:
                self.acts_late([service], "destroyed")
            raise
        if service is not None:
            service.autostart = False
            if service.power not in OFF:
                service.ended("destroy", self._scheduler.time)
                self._world.becomes(service, Power.SHUTOFF, "destroyed")
            self._scheduler.may_be_lost()

    def acts_late(self, services: Sequence[Service], reason: str) -> None:
        """What was asked of libvirtd, or of a BMC, is done later, although nobody heard that it would be."""
        after = services[0].fence_acts_late
        if after is None:
            return

        def act() -> None:
            for service in services:
                if service.power not in OFF:
                    service.told(f"the fence acts late: shutoff ({reason})")
                    self._world.becomes(service, Power.SHUTOFF, reason)

        self._scheduler.at(self._scheduler.time + after, act)

    def suspend(self, uuid: str, timeout: float | None = None) -> bool:
        self._asked(within=timeout or GIVEN_UP)
        service = self._of(uuid)
        if service is None:
            return False
        service.autostart = False
        if service.power is not Power.RUNNING:
            return False
        self._world.becomes(service, Power.PAUSED)
        service.quarantined = True
        return True

    def resume(self, uuid: str, timeout: float | None = None) -> bool:
        self._asked(within=timeout or GIVEN_UP)
        service = self._of(uuid)
        if service is None or service.power is not Power.PAUSED:
            return False
        service.quarantined = False
        self._world.becomes(service, Power.RUNNING)
        return True

    def subscribe(
        self,
        on_event: Callable[[DomainEvent], None],
        on_close: Callable[[], None],
        on_begin: Callable[[str], None] = lambda _uuid: None,
    ) -> Callable[[], None]:
        self._asked()

        def report(uuid: str, event: str, why: str) -> None:
            if event == "started":
                on_begin(uuid)
            stopped = event == "stopped"
            on_event(DomainEvent(uuid, stopped, why if stopped else "", "", event, why))

        listening = (report, on_close)
        self._world.listeners.setdefault(self.name, []).append(listening)
        self._listening = listening

        def end() -> None:
            self._listening = None
            there = self._world.listeners[self.name]
            if listening in there:
                there.remove(listening)

        return end

    def alive(self) -> bool:
        listening = self._listening
        return (
            listening is not None and listening in self._world.listeners[self.name] and self._world.answers(self.name)
        )


def _guest(service: Service) -> Guest:
    unknown = (service.power, service.reason) == (Power.SHUTOFF, "")
    return Guest(
        uuid=service.uuid,
        name=service.name,
        state=_STATE[service.power],
        vcpus=1,
        cpu_time=service.uses(),
        reason=service.reason,
        starts_by_itself="autostart" if service.autostart and unknown else "",
    )
