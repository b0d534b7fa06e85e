"""The ways without containers: a second VM for each service, which is off, suspended or saved until it is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from vcrecovery_lab import libvirt, machine
from vcrecovery_lab.domain import Accelerator
from vcrecovery_lab.image import Image
from vcrecovery_lab.machine import VirtualMachine
from vcrecovery_lab.pair.waiting import wait_until
from vcrecovery_lab.run import LabError, run
from vcrecovery_lab.secondary_vm.site import UNITS, virtual_machine

from . import services_first
from .answers import Watch, answers, at
from .boots import Boot, read_boot
from .rounds import Took, Way

PATIENCE = 900.0


@dataclass(frozen=True)
class VmRecovery:
    """`boots`: what each boot's time went into, of those that were booted and answered."""

    answered: Took
    boots: Mapping[str, Boot]


class StandbyVms:
    """They have been booted once and shut down: a first boot does more than those that follow.

    From then on they boot as standbys do, the service first.
    """

    def __init__(self, folder: Path, image: Image, accelerator: Accelerator, services: Mapping[str, int]) -> None:
        self._folder, self._image, self._accelerator, self._services = folder, image, accelerator, services
        self._vms = {name: virtual_machine(f"{name}-vm", 41 + number) for number, name in enumerate(services)}

    def make(self) -> None:
        for name, vm in self._vms.items():
            machine.create(vm, self._image, self._accelerator, self._folder, PATIENCE)
            wait_until(partial(self._is_up, vm), f"the first boot of {vm.name}", PATIENCE, 1.0)
            self._run(vm, services_first.command(UNITS[self._services[name]]))
            self._run(vm, "systemctl poweroff")
            wait_until(partial(self._is_off, vm), f"{vm.name} to be off", PATIENCE, 0.5)
            run(["cp", "--sparse=auto", "--reflink=auto", self._disk(vm), self._clean(vm)], timeout=300)

    def recover(self, way: Way) -> VmRecovery:
        """From the request until all of them answer; they are off again afterwards."""
        with self.switched_off():
            if way is Way.BOOTED:
                watch, took = self._measured(libvirt.start)
                return VmRecovery(took, self._boots(watch))
            watch, booted = self._measured(libvirt.start)
            if booted.seconds is None:
                return VmRecovery(Took(None, f"booted before: {booted.missing}"), {})
            self._wait_for_whole_boots()
            before, act = {
                Way.RESUMED: (libvirt.suspend, libvirt.resume),
                Way.RESTORED: (libvirt.managed_save, libvirt.start),
            }[way]
            for vm in self._vms.values():
                before(vm.name)
            return VmRecovery(self._measured(act)[1], {})

    @property
    def places(self) -> dict[str, tuple[str, int]]:
        """Service -> the address and port at which its VM answers."""
        return {name: (vm.ip, self._services[name]) for name, vm in self._vms.items()}

    @property
    def start_command(self) -> str:
        """Starts a service's VM, its name being in place of {}."""
        return f"virsh --quiet --connect qemu:///system start {virtual_machine('{}-vm', 0).name}"

    @contextmanager
    def switched_off(self) -> Iterator[None]:
        """All of them off, with the disks of their first shutdown; and off again afterwards."""
        for vm in self._vms.values():
            run(["cp", "--sparse=auto", "--reflink=auto", self._clean(vm), self._disk(vm)], timeout=300)
            _into_the_cache(self._disk(vm))
        try:
            yield
        finally:
            for vm in self._vms.values():
                libvirt.destroy(vm.name)

    def _measured(self, act: Callable[[str], None]) -> tuple[Watch, Took]:
        """Does it to all VMs at once."""
        early = [name for name, place in self.places.items() if answers(*place)]
        if early:
            raise LabError(f"{', '.join(early)} answer although their VMs do not run")
        with ThreadPoolExecutor(len(self._vms)) as pool:
            watch = Watch(at(self.places), PATIENCE)
            for done in [pool.submit(act, vm.name) for vm in self._vms.values()]:
                done.result()
            return watch, watch.took()

    def _boots(self, watch: Watch) -> dict[str, Boot]:
        found = {}
        for name, seconds in watch.seconds.items():
            vm = self._vms[name]
            # A service may answer before sshd does.
            wait_until(partial(machine.greets, str(vm.ip)), f"ssh to {vm.name}", PATIENCE, 0.1)
            found[name] = read_boot(partial(self._run, vm), self._services[name], seconds)
        return found

    def _wait_for_whole_boots(self) -> None:
        """A VM that is suspended or saved in the midst of its boot would go on with it."""
        for vm in self._vms.values():
            wait_until(partial(machine.greets, str(vm.ip)), f"ssh to {vm.name}", PATIENCE, 0.1)
            self._run(vm, "systemctl is-system-running --wait || true")

    def remove(self) -> None:
        for vm in self._vms.values():
            machine.destroy_and_undefine(vm, self._folder)
            self._clean(vm).unlink(missing_ok=True)

    def _run(self, vm: VirtualMachine, command: str) -> str:
        return machine.ssh(vm, self._image, self._folder, ["sh", "-c", command], timeout=PATIENCE).stdout

    def _is_up(self, vm: VirtualMachine) -> bool:
        return "active" in self._run(vm, "systemctl is-active multi-user.target || true").split()

    def _is_off(self, vm: VirtualMachine) -> bool:
        return libvirt.state(vm.name) == "off"

    def _disk(self, vm: VirtualMachine) -> Path:
        return self._folder / f"{vm.name}.img"

    def _clean(self, vm: VirtualMachine) -> Path:
        return self._folder / f"{vm.name}.clean"


@contextmanager
def standby_vms(
    folder: Path, image: Image, accelerator: Accelerator, services: Mapping[str, int]
) -> Iterator[StandbyVms]:
    vms = StandbyVms(folder, image, accelerator, services)
    try:
        vms.make()
        yield vms
    finally:
        vms.remove()


def _into_the_cache(disk: Path) -> None:
    """The secondary, which runs, has its standbys' files in the host's cache or its own: so do these VMs."""
    with disk.open("rb") as file:
        while file.read(2**22):
            pass
