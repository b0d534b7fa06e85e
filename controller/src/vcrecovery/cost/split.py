"""Who pays for what of a plan: providers, or services where no provider is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from vcrecovery.cost.book import Line, Owner
from vcrecovery.plan.model import Plan


@dataclass(frozen=True)
class Part:
    """`whose`: a provider, or a service."""

    whose: str
    a_month: Decimal


def split(plan: Plan, lines: Sequence[Line]) -> list[Part]:
    """A secondary is paid for in equal parts by the services that stand by there; each pays for its own traffic."""
    paid = dict.fromkeys((_whose(plan, name) for name in plan.services), Decimal(0))
    for line in lines:
        payers = [line.of.name]
        if line.of.owner is Owner.SECONDARY:
            payers = [name for name, service in plan.services.items() if service.standby.secondary == line.of.name]
        for name in payers:
            paid[_whose(plan, name)] += line.a_month / len(payers)
    return [Part(whose, amount) for whose, amount in paid.items()]


def _whose(plan: Plan, service: str) -> str:
    cost = plan.services[service].cost
    return f"provider {cost.provider}" if cost is not None and cost.provider is not None else f"service {service}"
