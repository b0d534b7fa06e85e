"""What no single field of a service shows: addresses that are taken, or in the wrong network."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Interface

from vcrecovery.plan.model import Plan
from vcrecovery.plan.problems import Key


def service_problems(plan: Plan) -> Iterator[tuple[Key, str]]:
    taken: dict[str, str] = {}
    for name, service in plan.services.items():
        here: Key = ("services", name)
        for kind, value, key in (
            ("VM", str(service.primary.uuid), (*here, "primary", "uuid")),
            ("address", str(service.standby.address), (*here, "standby", "address")),
            ("address", str(service.standby.address6 or ""), (*here, "standby", "address6")),
            ("address", str(service.virtual_ip.address.ip if service.virtual_ip else ""), (*here, "virtual_ip")),
        ):
            if not value:
                continue
            if other := taken.get(value):
                yield key, f"{kind} {value} already belongs to service {other}"
            taken[value] = name
        if service.primary.address == service.standby.address:
            yield (*here, "standby", "address"), "is the primary's own address; a failover could not move DNS"
        secondary = plan.secondaries.get(service.standby.secondary)
        if secondary and service.standby.address not in secondary.network.address.network:
            network = secondary.network.address.network
            yield (*here, "standby", "address"), f"is outside the secondary's network {network}"
        elif secondary and (whose := _taken(service.standby.address, secondary.network.address)):
            yield (*here, "standby", "address"), f"is {whose}"
        primary = service.primary.address
        if primary.is_unspecified or primary.is_multicast:
            yield (*here, "primary", "address"), "is no address of one machine"
        if (address6 := service.standby.address6) and secondary:
            network6 = secondary.network.address6
            if network6 is None:
                yield (*here, "standby", "address6"), "needs the secondary's network.address6"
            elif address6 not in network6.network:
                yield (*here, "standby", "address6"), f"is outside the secondary's network {network6.network}"
        if service.virtual_ip and service.virtual_ip.address.version == 6 and not service.standby.address6:
            yield (*here, "virtual_ip", "address"), "is IPv6, which needs standby.address6"
        for index, path in enumerate(service.sync.exclude):
            if not path.startswith("/") or path == "/":
                yield (*here, "sync", "exclude", index), f"{path!r} is no absolute path below /"


def _taken(address: IPv4Address, bridge: IPv4Interface) -> str:
    """Whose address it is already in the standbys' network; empty if nobody's."""
    network = bridge.network
    if address == bridge.ip:
        return "the address of the network's bridge itself"
    if network.prefixlen < 31 and address == network.network_address:
        return "the network's own address"
    if network.prefixlen < 31 and address == network.broadcast_address:
        return "the network's broadcast address"
    return ""
