"""What no single field of a service shows: addresses that are taken, or in the wrong network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Interface
from posixpath import normpath

from vcrecovery.plan.model import LxdOverHttps, Plan, Secondary, Service, Spare, Standby
from vcrecovery.plan.problems import Key
from vcrecovery.plan.records import AaaaRecord, ARecord


def service_problems(plan: Plan) -> Iterator[tuple[Key, str]]:
    for name, secondary in plan.secondaries.items():
        bridge = secondary.network.address
        if whose := _no_machines(bridge.ip, bridge):
            said = f"is {whose}; write the bridge's, such as {bridge.network.network_address + 1}"
            yield ("secondaries", name, "network", "address"), f"{said}/{bridge.network.prefixlen}"
    taken: dict[str, str] = {}
    for name, service in plan.services.items():
        here: Key = ("services", name)
        spare = service.standby.spare
        for what, value, key in (
            ("VM", str(service.primary.uuid), (*here, "primary", "uuid")),
            ("address", str(service.standby.address), (*here, "standby", "address")),
            ("address", str(service.standby.address6 or ""), (*here, "standby", "address6")),
            ("address", str(spare.address if spare else ""), (*here, "standby", "spare", "address")),
            ("address", str(spare.address6 or "" if spare else ""), (*here, "standby", "spare", "address6")),
            ("address", str(service.virtual_ip.address.ip if service.virtual_ip else ""), (*here, "virtual_ip")),
        ):
            if not value:
                continue
            # Where both share a network, it can keep its address, and so its connections.
            if (other := taken.get(value)) and not (other == name and "spare" in key):
                yield key, f"{what} {value} already belongs to service {other}"
            taken[value] = name
        if service.primary.address == service.standby.address:
            yield (*here, "standby", "address"), "is the primary's own address; a failover could not move DNS"
        yield from _in_its_network(plan, service.standby, (*here, "standby"))
        if spare is not None:
            yield from _in_its_network(plan, spare, (*here, "standby", "spare"))
            yield from _of_the_spare(plan, service, spare, here)
        primary = service.primary.address
        if primary.is_unspecified or primary.is_multicast:
            yield (*here, "primary", "address"), "is no address of one machine"
        if service.virtual_ip and service.virtual_ip.address.version == 6 and not service.standby.address6:
            yield (*here, "virtual_ip", "address"), "is IPv6, which needs standby.address6"
        for kind, units in (("first_units", service.first_units), ("warm_units", service.warm_units)):
            for index, unit in enumerate(units):
                if why := _never_starts(unit):
                    yield (*here, kind, index), f"{unit} is {why}; leave it out"
        yield from _of_the_paths(service.sync.exclude, (*here, "sync", "exclude"))
        yield from _of_the_paths(service.sync.consistency.paths, (*here, "sync", "consistency", "paths"))


def _never_starts(unit: str) -> str:
    """Why a standby never starts it by the plan's word; empty if it does."""
    # Loaded for plans that name one.
    from vcrecovery.excludes.machine_specific import MASKED_UNITS, REST_NOW_UNIT, REST_UNIT

    template = re.sub("@.*(?=[.])", "@", unit)
    if unit in MASKED_UNITS or template in MASKED_UNITS:
        return "masked in every standby, and would never start there"
    return "the standby's own" if unit in (REST_UNIT, REST_NOW_UNIT) else ""


def _of_the_paths(paths: list[str], here: Key) -> Iterator[tuple[Key, str]]:
    for index, path in enumerate(paths):
        plain = "/" + normpath(path).lstrip("/")
        if plain == "/":
            yield (*here, index), f"{path!r} is no absolute path below /"
        elif plain != path.rstrip("/"):
            yield (*here, index), f"{path!r} excludes nothing; write {plain!r}"


def service_warnings(plan: Plan) -> Iterator[tuple[Key, str]]:
    addresses: dict[IPv4Address, str] = {}
    for name, service in plan.services.items():
        here: Key = ("services", name)
        if (other := addresses.setdefault(service.primary.address, name)) != name:
            address = service.primary.address
            yield (
                (*here, "primary", "address"),
                f"{address} is that of service {other} too: nobody can tell whose ports answer",
            )
        yield from _a_vms_own(plan, name, (*here, "virtual_ip", "address"))
        yield from _too_old_by_design(service, here)
        secondary = plan.secondaries.get(service.standby.secondary)
        if secondary is not None and isinstance(secondary.lxd, LxdOverHttps):
            yield from _over_https(service, here)
        spare = service.standby.spare
        if spare is not None and (socket := _one_socket(secondary, plan.secondaries.get(spare.secondary))):
            both = f"{spare.secondary} and {service.standby.secondary} both have lxd {socket}"
            yield (*here, "standby", "spare", "secondary"), f"{both}: if that is one machine, they fail together"


def own_virtual_address(service: Service) -> bool:
    """Whether the virtual address is the one by which its VM is reached."""
    primary, virtual = service.primary, service.virtual_ip
    return virtual is not None and virtual.address.ip in (primary.address, primary.address6)


def _a_vms_own(plan: Plan, name: str, here: Key) -> Iterator[tuple[Key, str]]:
    virtual = plan.services[name].virtual_ip
    for other, service in plan.services.items():
        if virtual is None or virtual.address.ip not in (service.primary.address, service.primary.address6):
            continue
        if other != name:
            yield here, f"{virtual.address.ip} is that of the VM of {other}"
            continue
        said = "a failback would boot it beside a machine that has it, and is refused; let primary.address be another"
        yield here, f"{virtual.address.ip} is the VM's own: {said}"


def _too_old_by_design(service: Service, here: Key) -> Iterator[tuple[Key, str]]:
    """The age of a standby grows until the next heartbeat has arrived, behind all that was gathered before it."""
    sync = service.sync
    behind = sync.heartbeat + (sync.delay if sync.engine == "lsyncd" else 0.0)
    if service.max_staleness <= behind:
        what = "sync.heartbeat and sync.delay together are" if behind > sync.heartbeat else "sync.heartbeat is"
        found = f"is {service.max_staleness:g} s, and {what} {behind:g} s: "
        yield (
            (*here, "max_staleness"),
            f"{found}its standby is older for part of the time, and no failover is made then",
        )


def _over_https(service: Service, here: Key) -> Iterator[tuple[Key, str]]:
    what = f"needs a controller on {service.standby.secondary} itself; over HTTPS none is made"
    if service.restore_points.keep:
        yield (*here, "restore_points", "keep"), what
    if service.drill.every is not None:
        yield (*here, "drill", "every"), what


def _in_its_network(plan: Plan, place: Standby | Spare, here: Key) -> Iterator[tuple[Key, str]]:
    secondary = plan.secondaries.get(place.secondary)
    if secondary is None:
        return
    network, network6 = secondary.network.address, secondary.network.address6
    if place.address not in network.network:
        yield (*here, "address"), f"is outside the secondary's network {network.network}"
    elif whose := _taken(place.address, network):
        yield (*here, "address"), f"is {whose}"
    if place.address6 and network6 is None:
        yield (*here, "address6"), "needs the secondary's network.address6"
    elif place.address6 and network6 and place.address6 not in network6.network:
        yield (*here, "address6"), f"is outside the secondary's network {network6.network}"


def _of_the_spare(plan: Plan, service: Service, spare: Spare, here: Key) -> Iterator[tuple[Key, str]]:
    if spare.secondary == service.standby.secondary:
        yield (*here, "standby", "spare", "secondary"), "is the standby's own: it would fail with it"
    here_and_there = [plan.secondaries.get(place.secondary) for place in (service.standby, spare)]
    if why := _one_machine(*here_and_there):
        said = f"{spare.secondary} is the same machine as {service.standby.secondary} ({why}), and would fail with it"
        yield (*here, "standby", "spare", "secondary"), f"{said}; say where {spare.secondary} is"
    networks = {str(one.network.address.network) for one in here_and_there if one is not None}
    if spare.address == service.standby.address and len(networks) > 1:
        said = f"is the standby's own, but the secondaries' networks differ: {' and '.join(sorted(networks))}"
        yield (*here, "standby", "spare", "address"), said
    if service.standby.address6 and not spare.address6:
        yield (*here, "standby", "spare", "address6"), "is needed, since the standby has one"
    if service.virtual_ip:
        yield (
            (*here, "virtual_ip"),
            "does not follow a standby to another secondary; leave out standby.spare, or use DNS",
        )
    for index, record in enumerate(service.dns):
        if not isinstance(record, ARecord | AaaaRecord) or record.standby is not None:
            yield (
                (*here, "dns", index),
                f"{record.name} says itself where the standby is, and would not follow it to its spare",
            )


def _one_machine(one: Secondary | None, other: Secondary | None) -> str:
    """What shows that two secondaries are one machine; empty if nothing does."""
    if one is None or other is None or one is other:
        return ""
    if isinstance(one.lxd, LxdOverHttps) and isinstance(other.lxd, LxdOverHttps):
        if one.lxd.url.rstrip("/").lower() == other.lxd.url.rstrip("/").lower():
            return f"both have lxd {one.lxd.url}"
    elif not {"lxd"} & (one.model_fields_set | other.model_fields_set):
        return f"both have lxd {one.lxd}, as neither names another"
    same = (one.receiver.address, one.receiver.port) == (other.receiver.address, other.receiver.port)
    return f"both have receiver {one.receiver.address}:{one.receiver.port}" if same else ""


def _one_socket(one: Secondary | None, other: Secondary | None) -> str:
    """Where both have LXD. It may be two machines all the same: a secondary's own plan names its own LXD like that."""
    if one is None or other is None or one is other or isinstance(one.lxd, LxdOverHttps) or one.lxd != other.lxd:
        return ""
    return str(one.lxd)


def _taken(address: IPv4Address, bridge: IPv4Interface) -> str:
    """Whose address it is already in the standbys' network; empty if nobody's."""
    return "the address of the network's bridge itself" if address == bridge.ip else _no_machines(address, bridge)


def _no_machines(address: IPv4Address, bridge: IPv4Interface) -> str:
    """What address it is that no machine of the network can have; empty if one can."""
    network = bridge.network
    if network.prefixlen < 31 and address == network.network_address:
        return "the network's own address"
    if network.prefixlen < 31 and address == network.broadcast_address:
        return "the network's broadcast address"
    return ""
