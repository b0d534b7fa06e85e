"""Secondaries that the plan's file does not have: they are made for a while. Each service has one address there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Interface
from itertools import islice

from vcrecovery.plan.model import Plan, Secondary, Service
from vcrecovery.plan.problems import Key
from vcrecovery.plan.records import AaaaRecord, ARecord


class LeasedSecondary(Secondary):
    """`addresses`: of the services that may go there."""

    addresses: dict[str, IPv4Address]


def is_made_for_a_while(secondary: str) -> bool:
    """By its name, which no other may have."""
    return re.fullmatch(r"elastic-[0-9]+", secondary) is not None


def may_leave(service: Service) -> bool:
    """Whether its names follow it to any other secondary."""
    standby = service.standby
    follows = all(isinstance(record, ARecord | AaaaRecord) and record.standby is None for record in service.dns)
    return standby.address6 is None and service.virtual_ip is None and follows


def addresses_there(plan: Plan, network: IPv4Interface) -> dict[str, str]:
    """One for each service that may go there, as far as the network has room."""
    names = [name for name, service in plan.services.items() if may_leave(service)]
    free = (address for address in network.network.hosts() if address != network.ip)
    return {name: str(address) for name, address in zip(names, islice(free, len(names)), strict=False)}


def leased_problems(plan: Plan) -> Iterator[tuple[Key, str]]:
    """What the section balance.elastic does not show by itself."""
    elastic = plan.balance.elastic
    for index, network in enumerate(elastic.template.networks if elastic is not None else []):
        key: Key = ("balance", "elastic", "template", "networks", index)
        for name, secondary in plan.secondaries.items():
            if secondary.network.address.network.overlaps(network.network):
                yield key, f"{network} overlaps that of secondary {name}"
    for name in plan.secondaries if elastic is not None else ():
        if is_made_for_a_while(name):
            yield ("secondaries", name), "is a name of those that balance.elastic makes"


def lend(plan: Plan, leased: Mapping[str, LeasedSecondary]) -> None:
    """Has the plan have these, and no others of their kind; whoever shares it sees that from then on."""
    own = {name: one for name, one in plan.secondaries.items() if not isinstance(one, LeasedSecondary)}
    together = {**leased, **own}
    if together.keys() != plan.secondaries.keys():
        # Another mapping: somebody may be going through the one that there was.
        plan.__dict__["secondaries"] = together


def leased_of(plan: Plan) -> dict[str, LeasedSecondary]:
    return {name: one for name, one in plan.secondaries.items() if isinstance(one, LeasedSecondary)}


def free_networks(plan: Plan, taken: Sequence[str]) -> list[IPv4Interface]:
    elastic = plan.balance.elastic
    return [] if elastic is None else [one for one in elastic.template.networks if str(one) not in taken]
