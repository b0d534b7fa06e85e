"""The first plan of a site, as text with comments, from what was found there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface

#: Where standbys might be, in the order of choice.
_NETWORKS = [IPv4Interface(f"10.{second}.0.1/24") for second in (20, 120, 220, 77)]
_CHECK = "CHECK: "
_DNS = """\
# dns:
#   servers: {ns1: {address: 192.0.2.53}}
#   keys: {failover: {name: failover.key, secret_file: /etc/vcrecovery/tsig/failover.key}}
#   zones: {example.net: {servers: [ns1], key: failover}}
"""


@dataclass(frozen=True)
class FoundVm:
    """A VM of `hypervisor`. `memory` is in bytes; `ports` are those that answer at its first address."""

    name: str
    hypervisor: str
    uuid: str
    runs: bool
    cores: int
    memory: int
    addresses: Sequence[str] = ()
    ports: Sequence[int] = ()
    #: Why it is no primary, whatever else is known of it.
    is_none: str = ""


@dataclass(frozen=True)
class FoundSecondary:
    """An LXD. `pools`: their drivers; None when it did not answer. `address`: of its machine, towards the VMs."""

    name: str
    socket: str
    pools: Mapping[str, str] | None
    address: str


@dataclass(frozen=True)
class DnsWish:
    """The zone of the services' names, and the server that takes its updates."""

    zone: str
    server: str


def first_plan(
    hypervisors: Mapping[str, str], secondary: FoundSecondary, vms: Sequence[FoundVm], dns: DnsWish | None
) -> str:
    """`hypervisors`: their URIs by name."""
    network = _network(address for vm in vms for address in vm.addresses)
    named = dict(zip(_names(vms), vms, strict=True))
    taken = {name: vm for name, vm in named.items() if not _why_not(vm)}
    return "\n".join(
        (
            "# A first plan, of what the hypervisors and LXD say. What is marked CHECK was guessed: look at it.",
            "# `vcrecovery plan check --online` then finds what is wrong.",
            "# docs/reference/plan.md has every option.",
            "version: 1",
            "",
            "hypervisors:",
            *_hypervisors(hypervisors),
            "secondaries:",
            *_secondary(secondary, network),
            *_dns(dns),
            "services:" if taken else "services: {}",
            *_services(taken, secondary.name, network, dns),
            *_left_out(vms),
            "",
        )
    )


def protected(vms: Iterable[FoundVm]) -> int:
    """How many of them get a service."""
    return sum(not _why_not(vm) for vm in vms)


def _why_not(vm: FoundVm) -> str:
    if vm.is_none:
        return vm.is_none
    if not vm.addresses:
        return "its hypervisor knows no address of it" if vm.runs else "it is off, and so its address is not known"
    return ""


def _names(vms: Sequence[FoundVm]) -> Iterator[str]:
    """Names of services: those of the VMs, as the plan takes them, each once."""
    given: set[str] = set()
    for vm in vms:
        wanted = re.sub(r"[^a-z0-9-]+", "-", vm.name.lower())[:40].strip("-") or "vm"
        name, number = wanted, 1
        while name in given:
            number += 1
            name = f"{wanted}-{number}"
        given.add(name)
        yield name


def _network(addresses: Iterable[str]) -> IPv4Interface:
    """One in which none of these is."""
    known = [IPv4Address(address) for address in addresses]
    return next((one for one in _NETWORKS if not any(address in one.network for address in known)), _NETWORKS[0])


def _hypervisors(hypervisors: Mapping[str, str]) -> Iterator[str]:
    for name, uri in hypervisors.items():
        yield f"  {name}:"
        yield f"    uri: {json.dumps(uri)}"
        yield "    # Without a fence command, nothing fails over without your word when the whole machine is silent."
        yield f"    # fence: {{command: [/usr/local/sbin/power-off, {name}], timeout: 60s}}"
    yield ""


def _secondary(secondary: FoundSecondary, network: IPv4Interface) -> Iterator[str]:
    usable = sorted((secondary.pools or {}).items(), key=lambda found: (found[1] != "btrfs", found[0]))
    pool = next((name for name, driver in usable if driver in ("btrfs", "dir")), None)
    yield f"  {secondary.name}:"
    yield f"    lxd: {json.dumps(secondary.socket)}" + (
        "" if secondary.pools is not None else f"  # {_CHECK}nobody answers there"
    )
    if pool is None:
        yield f"    storage_pool: standbys  # {_CHECK}the role secondary makes it, with driver dir"
    else:
        yield f"    storage_pool: {pool}  # driver {dict(usable)[pool]}"
    yield f"    # {_CHECK}the standbys' own network, which nothing else uses; made if it is missing."
    yield f"    network: {{bridge: vcr0, address: {network}}}"
    yield f"    receiver: {{address: {secondary.address}, port: 7022}}  # {_CHECK}where the VMs send their files"
    yield ""


def _dns(wish: DnsWish | None) -> Iterator[str]:
    if wish is None:
        yield "# Names that follow a service: a zone that takes dynamic updates with a key."
        yield _DNS
        return
    yield "dns:"
    yield f"  servers: {{ns1: {{address: {wish.server}}}}}"
    yield f"  # {_CHECK}the key that may update the zone; the role dns makes it, or put its secret into this file."
    yield "  keys: {failover: {name: failover.key, secret_file: /etc/vcrecovery/tsig/failover.key}}"
    yield f"  zones: {{{wish.zone}: {{servers: [ns1], key: failover}}}}"
    yield ""


def _services(vms: Mapping[str, FoundVm], secondary: str, network: IPv4Interface, dns: DnsWish | None) -> Iterator[str]:
    used = {str(network.ip)}
    for name, vm in vms.items():
        standby = _free(network, vm.addresses[0], used)
        used.add(standby)
        size = f"{vm.cores} core{'s' if vm.cores != 1 else ''}, {vm.memory / 2**30:.1f} GiB"
        yield f"  {name}:  # VM {vm.name!r}: {size}"
        if others := vm.addresses[1:]:
            yield f"    # {_CHECK}it has other addresses, too: {', '.join(others)}"
        yield f"    primary: {{hypervisor: {vm.hypervisor}, uuid: {vm.uuid}, address: {vm.addresses[0]}}}"
        yield f"    standby: {{secondary: {secondary}, address: {standby}}}"
        if vm.ports:
            yield f"    # {_CHECK}these answer now, of those that are usual; DNS moves when all of them answer."
        else:
            yield f"    # {_CHECK}none of those that are usual answers from here; write what has to."
        yield f"    ports: [{', '.join(str(port) for port in vm.ports or (22,))}]"
        yield "    # first_units: [nginx.service]  # what answers them: a boot starts it before everything else"
        yield "    max_staleness: 2m"
        if dns is None:
            yield f"    # dns: [{{name: {name}.example.net, zone: example.net, ttl: 30}}]"
        else:
            yield f"    # {_CHECK}the name that its clients use."
            yield f"    dns: [{{name: {name}.{dns.zone}, zone: {dns.zone}, ttl: 30}}]"


def _free(network: IPv4Interface, like: str, used: set[str]) -> str:
    """An address of that network that nobody has: with the last byte of `like`, if that is free."""
    last = int(IPv4Address(like)) & 0xFF
    hosts = [str(host) for host in network.network.hosts()]
    wanted = str(network.network.network_address + last)
    return wanted if wanted in hosts and wanted not in used else next(host for host in hosts if host not in used)


def _left_out(vms: Sequence[FoundVm]) -> Iterator[str]:
    if out := [vm for vm in vms if _why_not(vm)]:
        yield ""
        yield "# Not protected:"
    for vm in out:
        yield f"#   {vm.name!r} of {vm.hypervisor}, {vm.uuid}: {_why_not(vm)}"
