"""What `vcrecovery plan advise` and a report propose: by the plan, its prices, its own failovers and drills."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vcrecovery.core.text import size_of
from vcrecovery.cost.advice import MODES, Bear, Chosen, MachineType, Needs, Proposal, front, memory_of, recovery_of
from vcrecovery.cost.book import PriceBook
from vcrecovery.cost.prices import MachineOffer, MissingPriceError
from vcrecovery.cost.solver import solve_by_highs
from vcrecovery.cost.times import times_of
from vcrecovery.errors import UsageError
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.start_conditions import starts_at_once
from vcrecovery.plan.model import Plan, Service
from vcrecovery.plan.modes import Mode
from vcrecovery.report.advice import AdviceView, Wish, choose
from vcrecovery.store.drills import DrillBook

#: Sizes for which the cheapest machine is looked up: cores, and GiB of memory.
_CORES = (1, 2, 4, 8, 16, 32, 64)
_MEMORIES = tuple(2**n for n in range(11))
_GIB = 2**30
_HISTORY = 200


def advice_view(
    env: Environment, currency: str, book: PriceBook, wish: Wish, bear: Bear, most: int | None = None
) -> AdviceView:
    """Raises UsageError for what cannot be told without the operator, and without the solver; MissingPriceError."""
    plan = env.plan
    services = _services(env, book, bear)
    found = front(services, _machines(plan, book), solve_by_highs, most)
    now, excess = _as_it_is(plan, book, services)
    return AdviceView(currency, bear, services, now, found, choose(found, wish), wish, excess, _waits(plan))


def _services(env: Environment, book: PriceBook, bear: Bear) -> list[Needs]:
    """Raises UsageError for those of which nobody knows how much memory they need."""
    plan, journal, drills = env.plan, env.journal, DrillBook(env.journal)
    found = []
    for name, service in plan.services.items():
        times = times_of(service, journal.history(name, _HISTORY), drills.history(name, _HISTORY))
        # Which units run in a warm one is the operator's choice: it stays what it is.
        modes = (Mode.WARM,) if service.mode is Mode.WARM else MODES
        found.append(
            Needs(name, _memory(name, service, book), _fails_with(plan, name, bear), times, modes, service.mode)
        )
    return found


def _memory(name: str, service: Service, book: PriceBook) -> int:
    cost = service.cost
    if cost is not None and cost.memory is not None:
        return cost.memory
    if cost is not None and cost.size is not None:
        return cost.size.memory
    if cost is not None:
        return book.offer(cost, cost.purchase).memory
    raise UsageError(f"nobody knows how much memory the standby of {name} needs", f"set services.{name}.cost.memory")


def _fails_with(plan: Plan, name: str, bear: Bear) -> str:
    hypervisor = plan.services[name].primary.hypervisor
    return {Bear.VM: name, Bear.HYPERVISOR: hypervisor, Bear.SITE: plan.hypervisors[hypervisor].site}[bear]


def _machines(plan: Plan, book: PriceBook) -> list[MachineType]:
    """Of each size the cheapest, bought as the plan's secondaries are."""
    purchases = dict.fromkeys(entry.cost.purchase for entry in plan.secondaries.values() if entry.cost is not None)
    offers: dict[str, MachineOffer] = {}
    for purchase in purchases or ("on-demand",):
        for source in book.sources:
            for cores in _CORES:
                for memory in _MEMORIES:
                    for offer in source.fitting(cores, memory * _GIB, purchase):
                        known = offers.setdefault(offer.name, offer)
                        offers[offer.name] = min(known, offer, key=book.a_month)
    if not offers:
        raise MissingPriceError("no price list has a machine that is bought as the plan's secondaries are")
    return [_machine(offer, book) for offer in offers.values()]


def _machine(offer: MachineOffer, book: PriceBook) -> MachineType:
    starts = starts_at_once(math.floor(offer.cores), offer.memory)
    return MachineType(offer.name, offer.memory, float(book.a_month(offer)), starts)


def _as_it_is(plan: Plan, book: PriceBook, services: Sequence[Needs]) -> tuple[Proposal | None, dict[str, str]]:
    by_name = {service.name: service for service in services}
    chosen, excess = [], {}
    for name in dict.fromkeys(service.standby.secondary for service in plan.services.values()):
        cost = plan.secondaries[name].cost
        if cost is None:
            return None, {}
        standbys = {s: entry.mode for s, entry in plan.services.items() if entry.standby.secondary == name}
        one = Chosen(_machine(book.offer(cost, cost.purchase), book), standbys)
        chosen.append(one)
        if (needed := memory_of(one, by_name)) > one.machine.memory:
            excess[name] = f"it needs {size_of(needed)} of memory and has {size_of(one.machine.memory)}"
    return Proposal(chosen, recovery_of(chosen, by_name)), excess


def _waits(plan: Plan) -> dict[str, tuple[str, ...]]:
    return {name: tuple(service.needs) for name, service in plan.services.items() if service.needs}
