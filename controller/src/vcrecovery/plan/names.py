"""What is wrong with the DNS records of a plan, or may delay a recovery, beyond what one field shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from vcrecovery.plan.records import AaaaRecord, ARecord, DnsRecord, SrvRecord

if TYPE_CHECKING:
    from vcrecovery.plan.model import Plan, Service

Key = tuple[str | int, ...]
#: The label in front of a name under which its epoch is kept.
MARKER = "_vcrecovery"
#: Seconds. Resolvers keep an old value for so long after a failover.
LONG_TTL = 60


def sides_of(record: DnsRecord, service: Service) -> tuple[str, str]:
    """What the record holds while the primary serves, and while the standby does, as a zone file writes it.

    Empty where the plan does not say.
    """
    match record:
        case ARecord():
            own = (service.primary.address, service.standby.address)
            return str(record.primary or own[0]), str(record.standby or own[1])
        case AaaaRecord():
            primary, standby = record.primary or service.primary.address6, record.standby or service.standby.address6
            return str(primary or ""), str(standby or "")
        case SrvRecord():
            targets = (record.primary, record.standby)
            first, second = (f"{t.priority} {t.weight} {t.port} {t.target}." for t in targets)
            return first, second
        case _:
            return f"{record.primary}.", f"{record.standby}."


def on_the_spare(record: DnsRecord, service: Service) -> tuple[str, ...]:
    """What it holds while the standby serves on its spare; on the secondary where it stands by, once it does."""
    spare = service.standby.spare
    if spare is None:
        return ()
    return tuple(str(address) for address in (spare.address if record.type == "A" else spare.address6,) if address)


def record_problems(plan: Plan) -> Iterator[tuple[Key, str]]:
    owners: dict[str, tuple[str, str]] = {}
    for name, service in plan.services.items():
        types: dict[str, list[str]] = {}
        for index, record in enumerate(service.dns):
            here: Key = ("services", name, "dns", index)
            yield from ((here + key, message) for key, message in _alone(plan, service, record))
            owner, zone = owners.setdefault(record.name, (name, record.zone))
            if owner != name:
                yield (*here, "name"), f"{record.name} already follows service {owner}"
                continue
            if zone != record.zone:
                yield (*here, "zone"), f"{record.name} is in zone {zone} above; all records of a name are in one zone"
            before = types.setdefault(record.name, [])
            if record.type in before:
                yield (*here, "name"), f"{record.name} has a record of type {record.type} already"
            elif before and "CNAME" in (record.type, *before):
                yield (*here, "name"), f"{record.name} is a CNAME and has other records; a CNAME stands alone"
            before.append(record.type)


def _alone(plan: Plan, service: Service, record: DnsRecord) -> Iterator[tuple[Key, str]]:
    inside = [z for z in plan.dns.zones if record.name == z or record.name.endswith(f".{z}")]
    if record.zone not in inside:
        yield ("name",), f"{record.name} is not in zone {record.zone}"
    elif (closest := max(inside, key=len)) != record.zone:
        yield ("zone",), f"{record.name} belongs to the plan's zone {closest}"
    if record.type == "CNAME" and record.name == record.zone:
        yield ("type",), "a zone's own name cannot be a CNAME, since SOA and NS stand there; use A or AAAA"
    if MARKER in record.name.split("."):
        yield ("name",), f"{MARKER} is the label of the epoch markers"
    primary, standby = sides_of(record, service)
    for side, value in (("primary", primary), ("standby", standby)):
        if not value:
            yield (), f"AAAA needs {side}: ADDRESS here, or the service's {side}.address6"
    if primary and primary == standby:
        yield (), f"is {primary} for the primary and for the standby; a failover could not move it"


def record_warnings(plan: Plan) -> Iterator[tuple[Key, str]]:
    for name, service in plan.services.items():
        probed = {port.number for port in service.ports}
        for index, record in enumerate(service.dns):
            here: Key = ("services", name, "dns", index)
            if record.ttl > LONG_TTL:
                yield (
                    (*here, "ttl"),
                    f"resolvers go on giving the old value for {record.ttl} s after a failover; 30 is usual",
                )
            if isinstance(record, SrvRecord) and record.standby.port not in probed:
                yield (
                    (*here, "standby", "port"),
                    f"{record.standby.port} is not among the service's ports: it is never checked",
                )
