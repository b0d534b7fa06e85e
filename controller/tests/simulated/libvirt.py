"""A hypervisor of the simulated world: the real driver, over libvirtd's side of a connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import libvirt

from simulated.scheduler import Scheduler
from simulated.secondary_vm import HOST as SECONDARIES_HOST
from simulated.secondary_vm import SecondaryDomain, SecondaryVm
from simulated.world import Service, World
from vcrecovery.core.domain import Destroyed, DomainEvent
from vcrecovery.core.power import OFF, Power
from vcrecovery.drivers.libvirt import LibvirtHost, connection
from vcrecovery.drivers.libvirt.connection import Call
from vcrecovery.drivers.libvirt.readings import REASON
from vcrecovery.errors import ExternalError

#: Seconds that an answer takes.
TAKES = 0.05
_STATE = {
    Power.RUNNING: libvirt.VIR_DOMAIN_RUNNING,
    Power.PAUSED: libvirt.VIR_DOMAIN_PAUSED,
    Power.SHUTOFF: libvirt.VIR_DOMAIN_SHUTOFF,
    Power.CRASHED: libvirt.VIR_DOMAIN_CRASHED,
}
#: States that the driver tells as another one, with a word of its own.
_TOLD_AS = {
    (Power.RUNNING, "shutting down"): libvirt.VIR_DOMAIN_SHUTDOWN,
    (Power.PAUSED, "suspended by the guest"): libvirt.VIR_DOMAIN_PMSUSPENDED,
}
T = TypeVar("T")


class SimulatedError(libvirt.libvirtError):  # type: ignore[misc]
    """One that libvirt has not raised."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.err = (code, libvirt.VIR_FROM_NONE, text, libvirt.VIR_ERR_ERROR, text, None, None, -1, -1)


class _Domain:
    """A VM, as python-libvirt shows it."""

    def __init__(self, service: Service, world: World) -> None:
        self._service, self._world = service, world

    def UUIDString(self) -> str:  # noqa: N802
        return self._service.uuid

    def name(self) -> str:
        return self._service.name

    def state(self) -> tuple[int, int]:
        power, reason = self._service.power, self._service.reason
        if (told := _TOLD_AS.get((power, reason))) is not None:
            return told, 0
        numbers = {word: number for number, word in REASON.get(_STATE[power], {}).items()}
        return _STATE[power], numbers[reason] if reason else 0

    def info(self) -> tuple[int, int, int, int, int]:
        return self.state()[0], 0, 0, 1, self._service.uses()

    def isActive(self) -> bool:  # noqa: N802
        return self._service.power not in OFF

    def isPersistent(self) -> bool:  # noqa: N802
        return not self._service.undefined

    def hasManagedSaveImage(self) -> bool:  # noqa: N802
        return self._service.saved

    def autostart(self) -> bool:
        return self._service.autostart

    def setAutostart(self, value: int) -> None:  # noqa: N802
        self._service.autostart = bool(value)

    def destroy(self) -> None:
        self._service.ended("destroy", self._service.scheduler.time)
        self._world.becomes(self._service, Power.SHUTOFF, "destroyed")

    def shutdown(self) -> None:
        service, world, scheduler = self._service, self._world, self._service.scheduler
        within, boot = service.shuts_down_within, service.boots_so_far

        def off() -> None:
            if service.power is Power.RUNNING and service.boots_so_far == boot:
                service.shuts_down()
                world.becomes(service, Power.SHUTOFF, "shutdown")

        if within is not None:
            scheduler.at(scheduler.time + within, off)

    def create(self) -> None:
        saved, self._service.saved = self._service.saved, False
        self._service.told("the VM goes on where it was saved" if saved else "the VM is started")
        if not saved:
            self._service.asks_who_serves()
        self._world.becomes(self._service, Power.RUNNING)

    def createWithFlags(self, flags: int) -> None:  # noqa: N802
        if flags & libvirt.VIR_DOMAIN_START_FORCE_BOOT:
            self._service.saved = False
        self.create()

    def suspend(self) -> None:
        self._world.becomes(self._service, Power.PAUSED)
        self._service.quarantined = True

    def resume(self) -> None:
        self._service.quarantined = False
        self._world.becomes(self._service, Power.RUNNING)


def _shown(vm: SecondaryVm) -> SecondaryDomain:
    numbers = {word: number for number, word in REASON.get(_STATE[vm.power], {}).items()}
    reason = numbers[vm.reason] if vm.reason else 0
    return SecondaryDomain(
        vm, _STATE[vm.power], reason, lambda text: SimulatedError(libvirt.VIR_ERR_INTERNAL_ERROR, text)
    )


class _Connection:
    """A connection to libvirtd, as python-libvirt shows it."""

    def __init__(self, host: str, world: World) -> None:
        self._host, self._world = host, world

    def lookupByUUIDString(self, uuid: str) -> _Domain | SecondaryDomain:  # noqa: N802
        for vm in self._world.secondary_vms.values():
            if vm.uuid == uuid and self._host == SECONDARIES_HOST:
                return _shown(vm)
        service = self._world.by_uuid(uuid)
        if service is None or service.host != self._host or not service.is_known:
            raise SimulatedError(libvirt.VIR_ERR_NO_DOMAIN, f"Domain not found: no domain with matching uuid '{uuid}'")
        return _Domain(service, self._world)

    def lookupByName(self, name: str) -> _Domain | SecondaryDomain:  # noqa: N802
        vm = self._world.secondary_vms.get(name)
        if vm is None or self._host != SECONDARIES_HOST:
            for service in self._world.on(self._host):
                if service.name == name:
                    return _Domain(service, self._world)
            raise SimulatedError(libvirt.VIR_ERR_NO_DOMAIN, f"Domain not found: no domain with matching name '{name}'")
        return _shown(vm)

    def domainListGetStats(  # noqa: N802
        self, domains: Sequence[_Domain | SecondaryDomain], _stats: int, _flags: int
    ) -> list[tuple[object, dict[str, object]]]:
        """Cores only, and nothing of a secondary's: their loads are LXD's."""
        return [
            (one, {"vcpu.0.time": one.info()[4], "vcpu.0.delay": 0} if one.isActive() else {})
            for one in domains
            if isinstance(one, _Domain)
        ]

    def listAllDomains(self) -> list[_Domain]:  # noqa: N802
        return [_Domain(service, self._world) for service in self._world.on(self._host) if service.is_known]


class SimulatedHost(LibvirtHost):
    """Answers as libvirtd on hypervisor `name` would."""

    def __init__(
        self,
        name: str,
        scheduler: Scheduler,
        world: World,
        timeout: float = 10.0,
        keeps_off: Callable[[str], None] = lambda _uuid: None,
    ) -> None:
        super().__init__(name, "test:///default", timeout, keeps_off=keeps_off)
        self._scheduler = scheduler
        self._world = world
        self._listening: tuple[Callable[[str, str, str], None], Callable[[], None]] | None = None
        #: Since when the connection of the subscription has been silent.
        self._silent_since: float | None = None

    def _call(
        self,
        function: Callable[[Call[T]], T],
        timeout: float | None = None,
        *,
        keep: bool = False,
        slow: bool = False,
        undo: Callable[[T], None] = lambda _: None,
    ) -> T:
        self._asked(timeout or self._timeout)
        return function(Call(connection=_Connection(self.name, self._world)))

    def _asked(self, within: float) -> None:
        """Raises what the real one would."""
        self._scheduler.takes(TAKES)
        services = self._world.on(self.name)
        if any(not service.hypervisor_answers for service in services):
            text = "Failed to connect socket to '/run/libvirt/libvirt-sock': No such file or directory"
            raise SimulatedError(libvirt.VIR_ERR_SYSTEM_ERROR, text)
        if not self._world.answers(self.name):
            end = self._scheduler.time + within
            while self._scheduler.time < end:
                self._scheduler.sleep(min(0.25, end - self._scheduler.time))
                if self._world.answers(self.name):
                    return
            raise self._unreachable(f"no answer within {within:.0f} s")

    def destroy(self, uuid: str, timeout: float | None = None) -> Destroyed:
        service = self._world.by_uuid(uuid)
        there = service if service is not None and service.host == self.name else None
        try:
            destroyed = super().destroy(uuid, timeout)
        except ExternalError:
            if there is not None:
                self.acts_late([there], "destroyed")
            raise
        if there is not None:
            self._scheduler.may_be_lost()
        return destroyed

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

    def subscribe(
        self,
        on_event: Callable[[DomainEvent], None],
        on_close: Callable[[], None],
        on_begin: Callable[[str], None] = lambda _uuid: None,
    ) -> Callable[[], None]:
        try:
            self._asked(self._timeout)
        except libvirt.libvirtError as error:
            raise self._unreachable(error) from error

        def report(uuid: str, event: str, why: str) -> None:
            if event == "started":
                on_begin(uuid)
            service = self._world.by_uuid(uuid)
            assert service is not None
            reason = {"stopped": why, "crashed": "crashed"}.get(event, "")
            on_event(DomainEvent(uuid, bool(reason), reason, service.name, event, why))

        listening = (report, on_close)
        self._world.listeners.setdefault(self.name, []).append(listening)
        self._listening, self._silent_since = listening, None

        def end() -> None:
            if self._listening is listening:
                self._listening = None
            there = self._world.listeners[self.name]
            if listening in there:
                there.remove(listening)

        return end

    def alive(self) -> bool:
        """Keep-alives find out after a while that nobody answers."""
        listening, there = self._listening, self._world.listeners.get(self.name, [])
        if listening is None or listening not in there:
            return False
        if self._world.answers(self.name):
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = self._scheduler.time
        elif self._scheduler.time - self._silent_since >= _kept_alive_for():
            there.remove(listening)
            listening[1]()
            return False
        return True


def _kept_alive_for() -> float:
    """Seconds of silence after which libvirt gives a connection up."""
    return float(connection.KEEPALIVE_SECONDS * (connection.KEEPALIVE_COUNT + 1))
