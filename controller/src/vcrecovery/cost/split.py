"""Who pays for what of a plan: providers, or services where no provider is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from vcrecovery.cost.book import Line, Owner
from vcrecovery.plan.costs import Split
from vcrecovery.plan.model import Plan
from vcrecovery.plan.places import places_of


@dataclass(frozen=True)
class Part:
    """`whose`: a provider, or a service."""

    whose: str
    a_month: Decimal


def split(plan: Plan, lines: Sequence[Line]) -> list[Part]:
    """A secondary is paid for by the services that stand by there, as `costs.split` says; each pays for its traffic.

    One where nobody stands by, by those whose spare it is. One that was made for a while has made room for all of them.
    """
    paid = dict.fromkeys((_whose(plan, name) for name in plan.services), Decimal(0))
    for line in lines:
        payers = {line.of.name: 1}
        if line.of.owner is Owner.SECONDARY:
            payers = {name: _share(plan, name) for name in _payers(plan, line.of.name)}
        for name, share in payers.items():
            paid[_whose(plan, name)] += line.a_month * share / sum(payers.values())
    return [Part(whose, amount) for whose, amount in paid.items()]


def _payers(plan: Plan, secondary: str) -> list[str]:
    """Services."""
    if secondary not in plan.secondaries:
        return list(plan.services)
    stand_by = [name for name, service in plan.services.items() if service.standby.secondary == secondary]
    return stand_by or [name for name, service in plan.services.items() if secondary in places_of(service)]


def _whose(plan: Plan, service: str) -> str:
    cost = plan.services[service].cost
    return f"provider {cost.provider}" if cost is not None and cost.provider is not None else f"service {service}"


def _share(plan: Plan, service: str) -> int:
    cost = plan.services[service].cost
    if plan.costs is None or plan.costs.split is Split.EQUALLY or cost is None or cost.memory is None:
        return 1
    return cost.memory
