"""Whether a new secondary would help, and whether those that were made are needed any more."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping
from dataclasses import replace

from vcrecovery.balance.amounts import Amounts
from vcrecovery.balance.choice import Container, Move, told
from vcrecovery.balance.load import Load
from vcrecovery.balance.new_machines import Growth, all_at_home, with_new_machines
from vcrecovery.core.lease import Lease, LeaseState, not_before
from vcrecovery.core.text import size_of
from vcrecovery.errors import ExternalError
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.rebalance import question, serving
from vcrecovery.plan.elastic import Elastic
from vcrecovery.plan.leased import addresses_there, free_networks
from vcrecovery.plan.places import is_elsewhere
from vcrecovery.store.leases import LeaseBook

#: So many of the newest are looked through for those that never joined; seconds after which one is tried at the latest.
_LOOKED_THROUGH, _NOT_LONGER = 20, 86400.0


def growth_of(
    env: Environment,
    elastic: Elastic,
    loads: Mapping[str, Load],
    relieve: Collection[str],
    silent: Collection[str],
    *,
    unasked: bool = False,
) -> Growth:
    """With the fewest new secondaries, and those that are coming or of which no load is known yet, which count as new.

    `silent`: those that do not answer, of which nothing is to be hoped. Raises ExternalError.
    """
    asked = question(env, loads, relieve, unasked=unasked)
    there = LeaseBook(env.journal).open()
    coming = [lease.name for lease in there if lease.name not in silent and _is_to_be_counted(lease, loads)]
    names = [*coming, *(f"new-{number + 1}" for number in range(elastic.at_most - len(there)))]
    template = elastic.template
    # Its disks and cards are not known before it is there.
    size = Amounts(template.cores, template.memory, template.disk, float("inf"), float("inf"))
    network = template.networks[0]
    # One that waits has no place but its spare.
    may = {
        name
        for name in serving(env) & addresses_there(env.plan, network).keys()
        if not is_elsewhere(env.plan.services[name])
    }
    return with_new_machines(asked.machines, asked.containers, asked.targets, asked.relieve, size, names, may)


def _is_to_be_counted(lease: Lease, loads: Mapping[str, Load]) -> bool:
    return lease.is_coming or (lease.state is LeaseState.JOINED and lease.name not in loads)


def ask(env: Environment, elastic: Elastic, growth: Growth, why: str) -> list[Lease]:
    """Writes down those that are to be made; none while others are coming, or too soon after some that never joined.

    The keeper makes them. Raises ExternalError.
    """
    book, now = LeaseBook(env.journal), env.clock.now()
    there = book.open()
    wanted = [name for name in growth.new if name.startswith("new-")]
    if not wanted or any(lease.is_coming for lease in there) or now < too_soon(env):
        return []
    made = []
    for network in free_networks(env.plan, [lease.network for lease in there])[: len(wanted)]:
        addresses = addresses_there(env.plan, network)
        lease = book.ask(
            secrets.token_hex(16), why, str(network), addresses, now, elastic.at_most, elastic.template.options
        )
        made += [lease] if lease is not None else []
    return made


def too_soon(env: Environment) -> float:
    """When another one may be asked for. Raises ExternalError."""
    newest, now = LeaseBook(env.journal).newest(_LOOKED_THROUGH), env.clock.now()
    until = not_before(newest, env.plan.balance.again_after, _NOT_LONGER)
    # Or the clock was set back.
    return until if until - now <= _NOT_LONGER else 0.0


def would_make(elastic: Elastic, growth: Growth) -> list[str]:
    """Lines of a proposal."""
    wanted = [name for name in growth.new if name.startswith("new-")]
    if not wanted:
        return []
    template = elastic.template
    what = "a secondary" if len(wanted) == 1 else f"{len(wanted)} secondaries"
    lines = [f"would make {what} with {template.cores} cores and {size_of(template.memory)} of memory:"]
    return lines + [f"  {told(move)}" for move in growth.choice.moves if move.to in growth.new]


def way_home(env: Environment, loads: Mapping[str, Load], name: str) -> list[Move] | None:
    """What goes home from one that was made, if all that serves there could be at home now, together.

    None: not all of it could. Raises ExternalError, also while a load is not known that would have to be.
    """
    asked = question(env, loads, [name], unasked=True)
    here = [
        # Its files are at home already.
        replace(one, uses=one.uses._replace(disk=0.0))
        for one in asked.containers
        if one.on == name and env.plan.services[one.name].standby.secondary == name
    ]
    homes = {one.name: one.places[0] for one in here if one.places}
    if unknown := [there for there in {name, *homes.values()} if there not in loads]:
        raise ExternalError(f"the load of {', '.join(sorted(unknown))} is not known")
    if any(one.stays or not one.places for one in here):
        return None
    would_be_on = {one.name: homes.get(one.name, one.on) for one in asked.containers}
    if any(would_be_on.get(other) == homes[one.name] for one in here for other in one.apart):
        return None
    if not all_at_home(asked.machines, here, homes, asked.targets):
        return None
    return [_home(one, homes[one.name]) for one in here]


def _home(one: Container, home: str) -> Move:
    return Move(one.name, one.on, home, one.to_copy, one.down, f"{home} has room for it again")
