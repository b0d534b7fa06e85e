"""Who pays for what of a plan: providers, or services where no provider is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from vcrecovery.cost.book import Line
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
        what, _, name = line.of.partition(" ")
        there = [s for s, entry in plan.services.items() if what == "secondary" and entry.standby.secondary == name]
        for service in there or [name]:
            paid[_whose(plan, service)] += line.a_month / max(1, len(there))
    return [Part(whose, amount) for whose, amount in paid.items()]


def _whose(plan: Plan, service: str) -> str:
    cost = plan.services[service].cost
    return f"provider {cost.provider}" if cost is not None and cost.provider is not None else f"service {service}"
