"""The way without containers: a second VM for each service, switched off until it is needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from vcrecovery_lab import libvirt, machine
from vcrecovery_lab.domain import Accelerator
from vcrecovery_lab.image import Image
from vcrecovery_lab.machine import VirtualMachine
from vcrecovery_lab.pair.waiting import wait_until
from vcrecovery_lab.run import run
from vcrecovery_lab.secondary_vm.site import virtual_machine

from .answers import Watch
from .boots import Boot, read_boot

PATIENCE = 900.0


class StandbyVms:
    """They have been booted once and shut down: a first boot does more than those that follow."""

    def __init__(self, folder: Path, image: Image, accelerator: Accelerator, services: Mapping[str, int]) -> None:
        self._folder, self._image, self._accelerator, self._services = folder, image, accelerator, services
        self._vms = {name: virtual_machine(f"{name}-vm", 41 + number) for number, name in enumerate(services)}

    def make(self) -> None:
        for vm in self._vms.values():
            machine.create(vm, self._image, self._accelerator, self._folder, PATIENCE)
            wait_until(partial(self._is_up, vm), f"the first boot of {vm.name}", PATIENCE, 1.0)
            self._run(vm, "systemctl poweroff")
            wait_until(partial(self._is_off, vm), f"{vm.name} to be off", PATIENCE, 0.5)
            run(["cp", "--sparse=auto", "--reflink=auto", self._disk(vm), self._clean(vm)], timeout=300)

    def boot(self) -> tuple[float, dict[str, Boot]]:
        """Seconds until all of them answer, and what each boot's time went into; they are off again afterwards."""
        for vm in self._vms.values():
            run(["cp", "--sparse=auto", "--reflink=auto", self._clean(vm), self._disk(vm)], timeout=300)
        try:
            with ThreadPoolExecutor(len(self._vms)) as pool:
                places = {name: (vm.ip, self._services[name]) for name, vm in self._vms.items()}
                watch = Watch(places, PATIENCE)
                for done in [pool.submit(libvirt.start, vm.name) for vm in self._vms.values()]:
                    done.result()
                last = watch.last()
            # A service may answer before sshd does.
            for vm in self._vms.values():
                wait_until(partial(machine.greets, str(vm.ip)), f"ssh to {vm.name}", PATIENCE, 0.1)
            boots = {
                name: read_boot(partial(self._run, vm), self._services[name], watch.seconds[name])
                for name, vm in self._vms.items()
                if name in watch.seconds
            }
            return last, boots
        finally:
            for vm in self._vms.values():
                libvirt.destroy(vm.name)

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
