"""The VM of a secondary on demand in the simulated world: of it and its hypervisor, one has the disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulated.scheduler import Scheduler
from vcrecovery.core.power import OFF, Power
from vcrecovery.drivers.lxd.instances import STOPPED

if TYPE_CHECKING:
    from simulated.world import Service

HOST = "hv9"
DISK = "/var/lib/libvirt/images/sec1-standbys.img"


@dataclass
class SecondaryVm:
    """Of secondary `name`; `there`: the services' containers in it. Off, and its disk is mounted, at first."""

    name: str
    scheduler: Scheduler
    there: Callable[[], Sequence[Service]]
    violated: Callable[[str], None]
    told: Callable[[str], None]
    comes_back: Callable[[str], None]
    uuid: str = "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7effff"
    power: Power = Power.SHUTOFF
    reason: str = "shutdown"
    saved: bool = False
    mounted: bool = False
    lxd_up: bool = False
    #: Seconds until its LXD answers; None: it hangs. And until it is off, once it is asked.
    boots_within: float | None = 20.0
    shuts_down_within: float | None = 3.0
    #: So many requests to shut down are overlooked; how many came; and what happens at each.
    overlooks: int = 0
    requests: int = 0
    when_asked: Callable[[], None] = lambda: None
    #: The receiver hands files on to it while it is on.
    relays: bool = True
    #: So many boots hang.
    hangs: int = 0
    #: libvirt does not start it.
    fails_to_start: bool = False
    #: Seconds after a start, in which its QEMU is killed, once.
    is_killed_after: float | None = None
    boots: int = 0

    def __post_init__(self) -> None:
        self._leave_or_take(False)

    def _leave_or_take(self, mounted: bool) -> None:
        self.mounted = mounted
        for place in self.there():
            place.disk_is_elsewhere = not mounted

    def mount(self) -> bool:
        """False while it runs: QEMU has locked the disk."""
        if self.power not in OFF:
            return False
        if self.saved:
            self.violated(f"the disk of {self.name} is mounted, and its saved memory goes on with it")
        for place in self.there():
            if place.container.config.get("user.vcrecovery.role") == "active" and not place.operators_word:
                self.violated(f"files may arrive in the standby of {place.name}, which has served")
        self._leave_or_take(True)
        return True

    def unmount(self) -> None:
        self._leave_or_take(False)

    def start(self) -> bool:
        """False while something else has the disk, or libvirt will not."""
        if self.mounted or self.fails_to_start:
            return False
        self.power, self.reason = Power.RUNNING, ""
        self.boots += 1
        boot = self.boots
        self.told(f"the VM of {self.name} boots")
        if self.is_killed_after is not None:
            self.scheduler.at(self.scheduler.time + self.is_killed_after, lambda: self.ends("crashed", boot))
            self.is_killed_after = None
        if self.boots_within is not None and boot > self.hangs:
            self.scheduler.at(self.scheduler.time + self.boots_within, lambda: self._is_up(boot))
        return True

    def _is_up(self, boot: int) -> None:
        if self.power is Power.RUNNING and self.boots == boot:
            self.lxd_up = True
            for place in self.there():
                place.disk_is_elsewhere = not self.relays
            self.comes_back(self.name)

    def ends(self, reason: str, boot: int | None = None, *, excused: bool = False) -> None:
        """`excused`: nobody could know that it would."""
        if self.power in OFF or boot not in (None, self.boots):
            return
        self.told(f"the VM of {self.name} is off ({reason})")
        self.power, self.reason, self.lxd_up = Power.SHUTOFF, reason, False
        for place in self.there():
            place.disk_is_elsewhere = True
            if reason == "shutdown" and place.serves and not excused:
                self.violated(f"{self.name} is shut down while {place.name} serves there")
            place.container.status = STOPPED
            place.answered.clear()

    def is_destroyed(self) -> None:
        """By the controller."""
        if any(place.serves for place in self.there()):
            self.violated(f"{self.name} is destroyed while a standby serves there")
        self.ends("destroyed")

    def is_asked_to_shut_down(self) -> None:
        boot = self.boots
        self.requests += 1
        self.when_asked()
        if self.requests > self.overlooks and self.shuts_down_within is not None:
            self.scheduler.at(self.scheduler.time + self.shuts_down_within, lambda: self.ends("shutdown", boot))


class SecondaryDomain:
    """As python-libvirt shows it. `error` makes libvirt's."""

    def __init__(self, vm: SecondaryVm, state: int, reason: int, error: Callable[[str], Exception]) -> None:
        self._vm, self._state, self._error = vm, (state, reason), error

    def UUIDString(self) -> str:  # noqa: N802
        return self._vm.uuid

    def name(self) -> str:
        return self._vm.name

    def state(self) -> tuple[int, int]:
        return self._state

    def isActive(self) -> bool:  # noqa: N802
        return self._vm.power not in OFF

    def isPersistent(self) -> bool:  # noqa: N802
        return True

    def hasManagedSaveImage(self) -> bool:  # noqa: N802
        return self._vm.saved

    def autostart(self) -> bool:
        return False

    def XMLDesc(self) -> str:  # noqa: N802
        disk = f"<disk device='disk'><source file='{DISK}'/></disk>"
        return f"<domain><devices>{disk}<disk device='disk'><source file='/system.img'/></disk></devices></domain>"

    def create(self) -> None:
        if not self._vm.start():
            raise self._error('process exited while connecting to monitor: Failed to get "write" lock')

    def destroy(self) -> None:
        self._vm.is_destroyed()

    def shutdown(self) -> None:
        self._vm.is_asked_to_shut_down()
