"""Which containers leave an overloaded secondary, and where each goes. Pure.

Of all sets of moves that bring each overloaded one under its targets, and none of the others over its own, the one with
the fewest bytes to copy; of those, the one with the shortest interruption. `search` looks for it: exactly where there
is little to choose from, else within a bounded number of steps. Only those on overloaded secondaries move.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

from vcrecovery.balance.amounts import Amounts
from vcrecovery.balance.search import Item, Placing, Rooms, greedy, left, search, taken
from vcrecovery.core.text import size_of, span

#: With more containers to choose from, each overloaded secondary is relieved by itself.
_TOGETHER = 24
#: What is less is not worth a word.
_MIB, _PERCENT = 1 << 20, 0.01
#: Steps of the search, for all of it: well below a second; and for each that is relieved by itself at least.
_STEPS, _STEPS_EACH = 20_000, 100


@dataclass(frozen=True)
class Machine:
    """A secondary. `takes`: whether others may go there; not while it is drained, or nobody knows its load."""

    name: str
    size: Amounts
    used: Amounts
    takes: bool = True


@dataclass(frozen=True)
class Container:
    """One that runs. `uses`: of the machine it is on. `to_copy`: bytes; `down`: seconds that nobody serves for a move:
    none where it waits.

    `places`: where else it may go. `apart`: those that are never on a machine with it. `stays`: why it is not moved.
    `not_told`: what of its use, that matters, nobody knows, or is none.
    """

    name: str
    on: str
    uses: Amounts
    places: tuple[str, ...] = ()
    to_copy: float = 0.0
    down: float = 0.0
    apart: frozenset[str] = frozenset()
    stays: str = ""
    not_told: str = ""


@dataclass(frozen=True)
class Move:
    """`why` is for people."""

    container: str
    source: str
    to: str
    to_copy: float
    down: float
    why: str


@dataclass(frozen=True)
class Choice:
    """`short`: what is said of those that stay overloaded; `over`: what is to be taken off them still.

    `kept`: why containers stay on an overloaded one; `on`: on which.
    """

    moves: tuple[Move, ...] = ()
    short: Mapping[str, str] = field(default_factory=dict)
    kept: Mapping[str, str] = field(default_factory=dict)
    on: Mapping[str, str] = field(default_factory=dict)
    over: Mapping[str, Amounts] = field(default_factory=dict)

    @property
    def to_copy(self) -> float:
        return sum(move.to_copy for move in self.moves)

    def kept_on(self, machine: str) -> dict[str, str]:
        return {name: why for name, why in self.kept.items() if self.on.get(name) == machine}


def choose(
    machines: Sequence[Machine], containers: Sequence[Container], targets: Amounts, relieve: Collection[str]
) -> Choice:
    """`targets`: shares of what a machine has, from 0 to 1. `relieve`: those that are overloaded."""
    known = {machine.name: machine for machine in machines}
    excess = {name: _excess(known[name], targets) for name in relieve}
    needs = {name: amounts for name, amounts in excess.items() if any(amounts)}
    free = {m.name: m.size.times(targets).minus(m.used) for m in machines if m.takes and m.name not in relieve}
    holds: dict[str, set[str]] = {}
    for one in containers:
        holds.setdefault(one.on, set()).add(one.name)
    rooms = Rooms(needs, free, {name: frozenset(names) for name, names in holds.items()})
    on_them = [one for one in containers if one.on in needs]
    items = [
        Item(one.name, one.on, one.uses, one.places, (one.to_copy, one.down), one.apart)
        for one in on_them
        if not one.stays and one.places
    ]
    placed, rooms = _placed(items, rooms)
    moves = tuple(_move(one, placed[one.name], known, rooms, targets) for one in on_them if one.name in placed)
    over = {name: need for name, need in rooms.needs.items() if any(need)}
    short = {name: _what_is_left(name, need) for name, need in over.items()}
    kept = {one.name: _why_it_stays(one, known, rooms, short, targets) for one in on_them if one.name not in placed}
    return Choice(moves, short, kept, {one.name: one.on for one in on_them if one.name in kept}, over)


def _excess(machine: Machine, targets: Amounts) -> Amounts:
    return left(machine.used, machine.size.times(targets))


def _placed(items: Sequence[Item], rooms: Rooms) -> tuple[dict[str, str], Rooms]:
    """Where each goes, and what is left of needs and room."""
    if len(rooms.needs) > 1 and len(items) <= _TOGETHER:
        found = search(items, rooms, None, _STEPS)
        if found is not None:
            return dict(found), taken(rooms, items, found)
    placed: dict[str, str] = {}
    own: dict[str, list[Item]] = {name: [] for name in rooms.needs}
    for item in items:
        own[item.source].append(item)
    # Who has least to choose from chooses first; those for which it is not enough get what is left.
    names = sorted(own, key=lambda name: len(own[name]))
    for in_part in (False, True):
        for name in names:
            if not any(rooms.needs[name]):
                continue
            alone = _of_one(name, own[name], rooms)
            found = _alone(own[name], alone, max(_STEPS_EACH, _STEPS // len(own)), in_part=in_part)
            then = taken(alone, own[name], found)
            rooms.needs.update(then.needs)
            rooms.free.update(then.free)
            for moved, place in found.items():
                rooms.holds[place] = rooms.holds.get(place, frozenset()) | {moved}
            placed |= found
    return placed, rooms


def _of_one(source: str, items: Sequence[Item], rooms: Rooms) -> Rooms:
    """As much of it as these items need."""
    places = {place for item in items for place in item.places if place in rooms.free}
    return Rooms({source: rooms.needs[source]}, {place: rooms.free[place] for place in places}, rooms.holds)


def _alone(items: Sequence[Item], rooms: Rooms, steps: int, *, in_part: bool) -> Placing:
    """Of one secondary. `in_part`: also where it is not enough."""
    start = greedy(items, rooms)
    if in_part:
        return start
    enough = taken(rooms, items, start).is_relieved
    return search(items, rooms, start if enough else None, steps) or {}


# -- in words ----------------------------------------------------------------------------------------------------------


def _move(one: Container, to: str, known: Mapping[str, Machine], rooms: Rooms, targets: Amounts) -> Move:
    there = known[to]
    then = there.size.times(targets).minus(rooms.free[to])
    why = f"takes {_amounts(one.uses)} off {one.on}; {to} has {_shares(then, there.size)} in use then"
    return Move(one.name, one.on, to, one.to_copy, one.down, why)


def _what_is_left(name: str, need: Amounts) -> str:
    return f"{name} stays {_amounts(need)} over its targets: no other one that its services may go to has that free"


def _why_it_stays(
    one: Container, known: Mapping[str, Machine], rooms: Rooms, short: Mapping[str, str], targets: Amounts
) -> str:
    if one.stays:
        return one.stays
    if not one.places:
        return "the plan names no other secondary for it"
    if one.on not in short:
        return f"{one.on} is below its targets without that"
    return "; ".join(_why_not_there(one, place, known, rooms, targets) for place in one.places)


def _why_not_there(one: Container, place: str, known: Mapping[str, Machine], rooms: Rooms, targets: Amounts) -> str:
    free = rooms.free.get(place)
    if free is None:
        return f"{place} takes no more"
    if not free.holds(one.uses):
        there = known[place]
        then = there.size.times(targets).minus(free).plus(one.uses)
        return f"{place} would have {_shares(then, there.size)} in use"
    if others := sorted(one.apart & rooms.holds.get(place, frozenset())):
        return f"{', '.join(others)}, which it is to be apart from, is on {place}"
    return one.not_told or f"it would take little off {one.on}"


def _amounts(amounts: Amounts) -> str:
    said = [f"{amounts.cpu:.1f} cores"] if amounts.cpu >= 0.05 else []
    said += [f"{size_of(int(amounts.memory))} of memory"] if amounts.memory >= _MIB else []
    said += [f"{size_of(int(amounts.disk))} of disk"] if amounts.disk >= _MIB else []
    said += [f"{100 * amounts.io:.0f} % of the disk latency allowed"] if amounts.io >= _PERCENT else []
    said += [f"{size_of(int(amounts.network))}/s of network"] if amounts.network >= _MIB else []
    return " and ".join(said) or "next to nothing"


def _shares(used: Amounts, size: Amounts) -> str:
    words = ("of its cores", "of its memory", "of its pool", "of the disk latency allowed", "of its network")
    return ", ".join(
        f"{100 * own / whole:.0f} % {word}"
        for own, whole, word in zip(used, size, words, strict=True)
        if whole > 0 and isfinite(whole)
    )


def told(move: Move) -> str:
    """One line of a proposal."""
    size = f"{size_of(int(move.to_copy))} to copy" if move.to_copy else "its size is not known"
    down = f"down for about {span(move.down)}" if move.down else "its primary serves meanwhile"
    return f"{move.container} to {move.to}: {move.why}; {size}, {down}"
