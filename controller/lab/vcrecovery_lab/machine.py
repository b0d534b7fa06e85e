"""The lab's virtual machines."""

from __future__ import annotations

import ipaddress
import shlex
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import domain, libvirt
from .disk import copy_disk, identity
from .image import Image
from .pair.waiting import wait_until
from .run import LabError, run


@dataclass(frozen=True)
class VirtualMachine:
    """A Debian server; `address` is in CIDR notation."""

    name: str
    uuid: str
    bridge: str
    address: str
    gateway: str
    mac: str
    memory_mib: int = 512
    vcpus: int = 2

    @property
    def ip(self) -> str:
        """The address without the length of its prefix."""
        return str(ipaddress.ip_interface(self.address).ip)


def create(
    vm: VirtualMachine,
    image: Image,
    accel: domain.Accelerator,
    state: Path,
    timeout: float = 120,
    other_files: Mapping[str, str] | None = None,
) -> None:
    """Have the machine run, and wait until it answers to ssh. `other_files` replace files of the image's in it.

    One that runs, or is off, by the same definition keeps its disk. One by another definition is made anew.
    """
    state.mkdir(parents=True, exist_ok=True)
    hardware = hardware_of(vm, image, accel, _disk(vm, state), _console(vm, state))
    # The same definition with another image's key, or another address, is another machine.
    also = image.ssh_key.with_suffix(".pub").read_text() + repr(vm)
    xml, digest = domain.signed(domain.full_domain(hardware), also=also)
    present = libvirt.state(vm.name)
    if present != "absent" and (libvirt.signature(vm.name) != digest or not hardware.disk.exists()):
        libvirt.remove(vm.name)
        present = "absent"
    if present == "absent":
        interface = ipaddress.ip_interface(vm.address)
        files = identity(vm.name, vm.uuid, str(interface.ip), interface.network.prefixlen, vm.gateway)
        copy_disk(image.disk, hardware.disk, {**files, **(other_files or {})})
        _known_hosts(vm, state).unlink(missing_ok=True)
        libvirt.define(xml)
    if present != "running":
        libvirt.start(vm.name)
    _wait_for_ssh(vm, image, state, hardware.console, timeout)


def create_blank(name: str, uuid: str) -> None:
    """Have a machine run that does nothing, for tests that need no more than a hypervisor process."""
    xml, digest = domain.signed(domain.blank_domain(name, uuid))
    present = libvirt.state(name)
    if present != "absent" and libvirt.signature(name) != digest:
        libvirt.remove(name)
        present = "absent"
    if present == "absent":
        libvirt.define(xml)
    if present != "running":
        libvirt.start(name)


def destroy_and_undefine(vm: VirtualMachine, state: Path) -> None:
    """Leave nothing of the machine."""
    for shared in state.absolute().glob(f"{vm.name}.ssh.*"):
        run(["ssh", "-F", "none", "-o", f"ControlPath={shared}", "-O", "exit", vm.ip], timeout=20, check=False)
    libvirt.remove(vm.name)
    for path in (_disk(vm, state), _console(vm, state), _known_hosts(vm, state)):
        path.unlink(missing_ok=True)


def destroy_and_undefine_blank(name: str) -> None:
    """Leave nothing of a machine made by create_blank."""
    libvirt.remove(name)


def qemu_pid(vm: VirtualMachine) -> int | None:
    """The process id of the machine's hypervisor if it runs."""
    return libvirt.pid(vm.name, vm.uuid)


def ssh(
    vm: VirtualMachine, image: Image, state: Path, argv: Sequence[str], timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run a command on the machine as root; a failing one is a LabError.

    Commands share a connection, which ends some time after the last one: an emulated CPU takes a second to set one up.
    """
    # Another process is another machine, which knows nothing of it. A longer name than this is no socket's.
    shared = state.absolute() / f"{vm.name}.ssh.{qemu_pid(vm)}"
    options = _SHARED | {"ControlPath": str(shared)} if len(str(shared)) < 80 else {}
    return run([*_ssh(vm, image, state, options), shlex.join(argv)], timeout=timeout)


_SHARED = {"ControlMaster": "auto", "ControlPersist": "20", "ServerAliveInterval": "5", "ServerAliveCountMax": "6"}


def ssh_command(vm: VirtualMachine, image: Image, state: Path) -> list[str]:
    """The ssh command, up to the destination, for those that start it themselves."""
    return _ssh(vm, image, state, {})


def _ssh(vm: VirtualMachine, image: Image, state: Path, more: Mapping[str, str]) -> list[str]:
    options = {
        "BatchMode": "yes",
        "ConnectTimeout": "10",
        "IdentitiesOnly": "yes",
        "StrictHostKeyChecking": "accept-new",
        "UserKnownHostsFile": str(_known_hosts(vm, state)),
        "LogLevel": "ERROR",
        **more,
    }
    settings = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    return ["ssh", "-F", "none", "-i", str(image.ssh_key), *settings, f"root@{vm.ip}"]


def hardware_of(
    vm: VirtualMachine, image: Image, accel: domain.Accelerator, disk: Path, console: Path
) -> domain.Hardware:
    """Of a VM that boots the image's kernel with a disk of its own."""
    return domain.Hardware(
        name=vm.name,
        uuid=vm.uuid,
        accelerator=accel,
        memory_mib=vm.memory_mib,
        vcpus=vm.vcpus,
        kernel=image.kernel,
        initrd=image.initrd,
        disk=disk,
        console=console,
        bridge=vm.bridge,
        mac=vm.mac,
        tsc_khz=domain.emulated_tsc_khz(Path("/proc/cpuinfo").read_text()) if accel == "qemu" else None,
    )


def _disk(vm: VirtualMachine, state: Path) -> Path:
    return state.absolute() / f"{vm.name}.img"


def _console(vm: VirtualMachine, state: Path) -> Path:
    return state.absolute() / f"{vm.name}.console.log"


def _known_hosts(vm: VirtualMachine, state: Path) -> Path:
    return state.absolute() / f"{vm.name}.known_hosts"


def _wait_for_ssh(vm: VirtualMachine, image: Image, state: Path, console: Path, timeout: float) -> None:
    def answers() -> bool:
        greeted = greets(vm.ip)
        if not greeted and qemu_pid(vm) is None:
            raise LabError(f"{vm.name}: the hypervisor ended before the machine answered; see {console}")
        return greeted

    wait_until(answers, f"{vm.name}'s answer to ssh (see {console})", timeout)
    ssh(vm, image, state, ["true"], timeout=timeout)


def greets(address: str) -> bool:
    """Whether an ssh server says its name."""
    try:
        with socket.create_connection((address, 22), timeout=1) as connection:
            # An emulated machine takes its time to start a process.
            connection.settimeout(10)
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False
