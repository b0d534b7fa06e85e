"""What a first plan is written of: VMs that hypervisors know, ports that answer, an LXD's pools. Nothing is changed."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from vcrecovery.core.power import Power
from vcrecovery.drivers.libvirt import Guest
from vcrecovery.drivers.runtime import THREADS, Runtime, results
from vcrecovery.errors import ExternalError
from vcrecovery.plan.first import FoundSecondary, FoundVm

#: What services are usually asked on; 22 counts where nothing else answers.
USUAL_PORTS = (
    *(21, 25, 53, 80, 110, 143, 389, 443, 465, 587, 636, 993, 995, 1433, 1521, 1883, 3000, 3306, 5000, 5432, 5672),
    *(6379, 8000, 8080, 8443, 9000, 9090, 9200, 11211, 27017),
)
SSH = 22
#: Seconds for one port.
PORT_WITHIN = 0.5

#: Whether a port of an address accepts a connection.
Answers = Callable[[str, int], bool]


class Host(Protocol):
    """What `drivers.libvirt` knows of one hypervisor. Raises ExternalError."""

    name: str

    def guests(self) -> list[Guest]: ...

    def addresses(self, uuid: str) -> list[str]: ...

    def cards(self, uuid: str) -> list[str]: ...


class Lxd(Protocol):
    name: str

    def pools(self) -> dict[str, str]: ...


def find_vms(
    hosts: Sequence[Host],
    answers: Answers | None,
    own_uuid: str,
    near: Mapping[str, Sequence[str]],
    runtime: Runtime = THREADS,
) -> list[FoundVm]:
    """Every VM of these hypervisors, sorted by name. `answers`: None where no port is to be asked.

    `own_uuid` is that of the machine this runs on; `near`: addresses of this machine's neighbours, by those of their
    cards, for VMs of which libvirt knows none. Raises ExternalError when a hypervisor does not answer.
    """
    found = [_found(host, guest, answers, own_uuid, near, runtime) for host in hosts for guest in host.guests()]
    return sorted(found, key=lambda vm: (vm.name, vm.hypervisor))


def _found(
    host: Host,
    guest: Guest,
    answers: Answers | None,
    own_uuid: str,
    near: Mapping[str, Sequence[str]],
    runtime: Runtime,
) -> FoundVm:
    runs = guest.reading.power is Power.RUNNING
    addresses = host.addresses(guest.uuid) if runs else []
    if runs and not addresses:
        addresses = [address for card in host.cards(guest.uuid) for address in near.get(card, ())]
    ports: list[int] = []
    if answers is not None and addresses:
        asked = (*USUAL_PORTS, SSH)
        said = results(runtime, lambda port: answers(addresses[0], port), asked, "port", len(asked))
        ports = [port for port, answered in zip(asked, said, strict=True) if answered]
        if len(ports) > 1:
            ports = [port for port in ports if port != SSH]
    none = "it is the machine that this runs on" if guest.uuid.lower() == own_uuid.lower() else ""
    return FoundVm(
        guest.name, host.name, guest.uuid, runs, guest.vcpus, guest.memory_limit << 10, addresses, ports, none
    )


def find_secondary(lxd: Lxd, path: Path, vms: Sequence[FoundVm]) -> FoundSecondary:
    """The LXD at that socket; it need not answer."""
    try:
        pools: dict[str, str] | None = lxd.pools()
    except ExternalError:
        pools = None
    towards = next((vm.addresses[0] for vm in vms if vm.addresses), "192.0.2.1")
    return FoundSecondary(lxd.name, str(path), pools, own_address(towards))


def neighbours(table: Path = Path("/proc/net/arp")) -> dict[str, list[str]]:
    """The IPv4 addresses that this machine has lately talked to on its own networks, by those of their cards."""
    found: dict[str, list[str]] = {}
    for line in table.read_text().splitlines()[1:]:
        address, _, _, card, *_ = line.split()
        if card != "00:00:00:00:00:00":
            found.setdefault(card.lower(), []).append(address)
    return found


def own_address(towards: str) -> str:
    """The address with which this machine would talk to that one; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect((towards, 9))
        except OSError:
            return "127.0.0.1"
        return str(sock.getsockname()[0])


def uuid_of_this_machine(file: Path = Path("/sys/class/dmi/id/product_uuid")) -> str:
    """Empty where the firmware tells none."""
    try:
        return file.read_text().strip().lower()
    except OSError:
        return ""
