"""What machines that do not exist yet would take: the fewest with which the overloaded ones are relieved. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from vcrecovery.balance.amounts import Amounts
from vcrecovery.balance.choice import Choice, Container, Machine, choose

#: What the system and LXD take of each.
_OWN = Amounts(0.1, 512.0 * 2**20, 0.0)
#: A share that is less is no relief for which a machine is made.
_LITTLE = 0.01


@dataclass(frozen=True)
class Growth:
    """`choice`: what goes where with them. `new`: their names; none where none would help."""

    choice: Choice
    new: Sequence[str] = ()


def with_new_machines(
    machines: Sequence[Machine],
    containers: Sequence[Container],
    targets: Amounts,
    relieve: Collection[str],
    size: Amounts,
    names: Sequence[str],
    may: Collection[str],
) -> Growth:
    """`size`: of each new one. `names`: of as many as there may be. `may`: the containers that may go there.

    Those that exist, or are coming, are among `machines`.
    """
    growth = Growth(choose(machines, containers, targets, relieve))
    before = _left(growth.choice, machines)
    for count in range(1, len(names) + 1):
        if not growth.choice.short:
            break
        new = names[:count]
        choice = choose(
            [*machines, *(Machine(name, size, _OWN) for name in new)],
            [replace(one, places=(*one.places, *new)) if one.name in may else one for one in containers],
            targets,
            relieve,
        )
        left = _left(choice, machines)
        if before - left < _LITTLE:
            break
        growth, before = Growth(choice, new), left
    return growth


def _left(choice: Choice, machines: Sequence[Machine]) -> float:
    """Of those that stay overloaded: what is over their targets, as shares of what they have, added up."""
    sizes: Mapping[str, Amounts] = {machine.name: machine.size for machine in machines}
    return sum(
        own / whole
        for name, over in choice.over.items()
        for own, whole in zip(over, sizes[name], strict=True)
        if whole > 0
    )


def all_at_home(
    machines: Sequence[Machine], containers: Sequence[Container], homes: Mapping[str, str], targets: Amounts
) -> bool:
    """Whether all of them fit at home together, each below its targets. `homes`: of each container, its secondary."""
    known = {machine.name: machine for machine in machines}
    used = {name: machine.used for name, machine in known.items()}
    for one in containers:
        home = homes[one.name]
        if home not in known or not known[home].takes:
            return False
        used[home] = used[home].plus(one.uses)
    return all(known[home].size.times(targets).holds(used[home]) for home in set(homes.values()) if home in known)
