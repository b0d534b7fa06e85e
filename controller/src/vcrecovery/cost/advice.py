"""Which secondaries a plan needs, and how each standby waits: every way that nothing else beats in cost and in time.

A secondary bears its services in the worst failure that the operator wants to bear: one VM, a hypervisor or a site at
once. Standbys that are booted always take memory; cold ones only when they start, but then several wait for each other
(`starts_at_once`). So cold standbys make machines smaller, and recovery slower (the paper's figure 4). Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from vcrecovery.cost.times import Times
from vcrecovery.plan.modes import Mode

#: Bytes that the secondary's own system and LXD take.
OF_ITS_OWN = 512 * 2**20
#: In this order when they cost the same: a cold standby costs its machine nothing.
MODES = (Mode.COLD, Mode.FROZEN, Mode.HOT)


class Bear(StrEnum):
    """What fails at once, at worst."""

    VM = "vm"
    HYPERVISOR = "hypervisor"
    SITE = "site"


@dataclass(frozen=True)
class Needs:
    """A service. `memory` in bytes, while its standby serves; `fails_with`: the name of what it fails together with.

    `modes`: those that it may have; `prefers`: the one that it has now.
    """

    name: str
    memory: int
    fails_with: str
    times: Times
    modes: Sequence[Mode] = MODES
    prefers: Mode = Mode.COLD


@dataclass(frozen=True)
class MachineType:
    """A machine that a secondary may be. `memory` in bytes; `a_month` in the bill's currency; `starts` at once."""

    name: str
    memory: int
    a_month: float
    starts: int


@dataclass(frozen=True)
class Chosen:
    """A secondary of a proposal, and how each of its standbys waits."""

    machine: MachineType
    standbys: Mapping[str, Mode]


@dataclass(frozen=True)
class Proposal:
    """`recovery`: seconds without service, of the slowest service in the worst failure."""

    secondaries: Sequence[Chosen]
    recovery: float

    @property
    def a_month(self) -> float:
        return sum(chosen.machine.a_month for chosen in self.secondaries)


class Solver(Protocol):
    """Finds the cheapest secondaries that recover within `limit` seconds, at most `most` of them; None for none."""

    def __call__(
        self, services: Sequence[Needs], machines: Sequence[MachineType], limit: float, most: int
    ) -> Sequence[Chosen] | None: ...


def cold_waves(service: Needs, limit: float) -> int:
    """How many boots after one another end within `limit` seconds, this service's last among them."""
    times = service.times
    left = limit - times.before.seconds - times.after.seconds
    return max(0, math.floor(left / times.up[Mode.COLD].seconds + 1e-9))


def recovery_of(chosen: Sequence[Chosen], services: Mapping[str, Needs]) -> float:
    """Seconds without service, of the slowest service in the worst failure."""
    worst = 0.0
    for secondary in chosen:
        for name, mode in secondary.standbys.items():
            service = services[name]
            if mode is not Mode.COLD:
                worst = max(worst, service.times.alone(mode))
                continue
            together = sum(
                other is Mode.COLD and services[one].fails_with == service.fails_with
                for one, other in secondary.standbys.items()
            )
            waves = math.ceil(together / secondary.machine.starts)
            boots = waves * service.times.up[Mode.COLD].seconds
            worst = max(worst, service.times.before.seconds + boots + service.times.after.seconds)
    return worst


def memory_of(secondary: Chosen, services: Mapping[str, Needs]) -> int:
    """Bytes that it needs in the worst failure."""
    always = sum(services[name].memory for name, mode in secondary.standbys.items() if mode is not Mode.COLD)
    together: dict[str, int] = {}
    for name, mode in secondary.standbys.items():
        if mode is Mode.COLD:
            with_ = services[name].fails_with
            together[with_] = together.get(with_, 0) + services[name].memory
    return OF_ITS_OWN + always + max(together.values(), default=0)


def worth_it(machines: Sequence[MachineType]) -> list[MachineType]:
    """Without those that another one beats in price, memory and starts."""
    found: list[MachineType] = []
    for one in sorted(machines, key=lambda m: (m.a_month, -m.memory, -m.starts)):
        if not any(other.memory >= one.memory and other.starts >= one.starts for other in found):
            found.append(one)
    return found


def front(
    services: Sequence[Needs], machines: Sequence[MachineType], solve: Solver, most: int | None = None
) -> list[Proposal]:
    """The fastest first, each cheaper than the one before; none where no machine is large enough."""
    by_name = {service.name: service for service in services}
    limit, found = math.inf, list[Proposal]()
    candidates = worth_it(machines)
    count = most if most is not None else len(services)
    while (chosen := solve(services, candidates, limit, count)) is not None:
        # Of those that cost as much, the fastest: no other is worth its price.
        price, best = sum(one.machine.a_month for one in chosen), chosen
        while True:
            recovery = recovery_of(best, by_name)
            faster = solve(services, candidates, recovery - 1e-6, count)
            if faster is None or sum(one.machine.a_month for one in faster) > price + 1e-9:
                break
            best = faster
        found.append(Proposal(best, recovery))
        if faster is None:
            break
        limit = recovery - 1e-6
    return found[::-1]
