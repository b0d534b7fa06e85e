"""The search for the cheapest moves: first as one would by hand, then by branch and bound. Pure.

The bound: what is still to be taken off a secondary costs at least as much as if containers could be cut in pieces, the
cheapest for that resource first. Where the steps suffice the answer is exact, otherwise the best that was found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from vcrecovery.balance.amounts import Amounts

#: Where each container goes that moves.
Placing = Mapping[str, str]
#: Bytes and seconds: the second counts where the first are equal.
Cost = tuple[float, float]
#: Of what is to be taken off, or is free: less than this share of it is rounding.
_ROUNDING = 1e-9
#: The search goes into so many, one inside the other: the cheapest for what they take off.
_MOST = 200
_ALL_BUT_ROUNDING = Amounts(*[1 - _ROUNDING] * len(Amounts()))


@dataclass(frozen=True)
class Item:
    """A container that may move. `apart`: those that may not be where it goes."""

    name: str
    source: str
    uses: Amounts
    places: tuple[str, ...]
    cost: Cost
    apart: frozenset[str] = frozenset()


@dataclass
class Rooms:
    """`needs`: what is to be taken off each source. `free`: what may go to each place. `holds`: who is there now."""

    needs: dict[str, Amounts]
    free: dict[str, Amounts]
    holds: dict[str, frozenset[str]]

    def copy(self) -> Rooms:
        return replace(self, needs=dict(self.needs), free=dict(self.free))

    @property
    def is_relieved(self) -> bool:
        return not any(any(need) for need in self.needs.values())

    def fits(self, item: Item, place: str, placed: Mapping[str, str]) -> bool:
        free = self.free.get(place)
        if free is None or not free.holds(item.uses.times(_ALL_BUT_ROUNDING)):
            return False
        return not item.apart or not (
            item.apart & self.holds.get(place, frozenset()) or any(placed.get(other) == place for other in item.apart)
        )

    def put(self, item: Item, place: str) -> None:
        self.needs[item.source] = left(self.needs[item.source], item.uses)
        self.free[place] = self.free[place].minus(item.uses)


def greedy(items: Sequence[Item], rooms: Rooms) -> dict[str, str]:
    """The cheapest for what they take off first, until it is enough; then without those that were not needed.

    It takes off what it can where it cannot be enough.
    """
    rest, placed = rooms.copy(), dict[str, str]()
    for item in sorted(items, key=lambda item: _ratio(item, rooms.needs[item.source])):
        if _useful(item, rest.needs[item.source]) <= 0:
            continue
        if fitting := [place for place in item.places if rest.fits(item, place, placed)]:
            place = max(fitting, key=lambda place: rest.free[place])
            rest.put(item, place)
            placed[item.name] = place
    by_name = {item.name: item for item in items}
    for name in sorted(placed, key=lambda name: by_name[name].cost, reverse=True):
        without = rooms.copy()
        for other, place in placed.items():
            if other != name:
                without.put(by_name[other], place)
        source = by_name[name].source
        if not any(without.needs[source]):
            del placed[name]
    return placed


def search(items: Sequence[Item], rooms: Rooms, start: Placing | None, steps: int) -> Placing | None:
    """The cheapest placing that relieves every source; None when none was found. `start`: one that does."""
    return _Search(items, rooms, start, steps).best


def cost_of(items: Sequence[Item], placing: Placing) -> Cost:
    moved = [item.cost for item in items if item.name in placing]
    return sum(cost[0] for cost in moved), sum(cost[1] for cost in moved)


class _Search:
    def __init__(self, items: Sequence[Item], rooms: Rooms, start: Placing | None, steps: int) -> None:
        self._items = sorted(items, key=lambda item: _ratio(item, rooms.needs[item.source]))[:_MOST]
        self._rooms, self._steps = rooms.copy(), steps
        self._placed: dict[str, str] = {}
        self.best: Placing | None = start
        self._least: Cost = cost_of(items, start) if start is not None else (inf, inf)
        #: For each source and resource, who takes of it off, the cheapest first: index, amount, bytes.
        self._cheapest: dict[tuple[str, int], list[tuple[int, float, float]]] = {}
        for source in rooms.needs:
            for resource in range(len(Amounts())):
                own = [
                    (index, item.uses[resource], item.cost[0])
                    for index, item in enumerate(self._items)
                    if item.source == source and item.uses[resource] > 0
                ]
                self._cheapest[source, resource] = sorted(own, key=lambda one: one[2] / one[1])
        self._down(0, (0.0, 0.0))

    def _down(self, index: int, cost: Cost) -> None:
        """Decides about the items from `index` on."""
        self._steps -= 1
        rooms = self._rooms
        if rooms.is_relieved:
            if cost < self._least:
                self.best, self._least = dict(self._placed), cost
            return
        if self._steps < 0 or index == len(self._items):
            return
        least = cost[0] + self._bound(index)
        if least > self._least[0] or (least == self._least[0] and cost[1] >= self._least[1]):
            return
        item = self._items[index]
        need = rooms.needs[item.source]
        if _useful(item, need) > 0:
            for place in sorted(item.places, key=lambda place: rooms.free.get(place, Amounts()), reverse=True):
                if rooms.fits(item, place, self._placed):
                    free = rooms.free[place]
                    rooms.put(item, place)
                    self._placed[item.name] = place
                    self._down(index + 1, (cost[0] + item.cost[0], cost[1] + item.cost[1]))
                    del self._placed[item.name]
                    rooms.needs[item.source], rooms.free[place] = need, free
        self._down(index + 1, cost)

    def _bound(self, index: int) -> float:
        """Bytes that the rest costs at least; infinite where it cannot be enough."""
        total = 0.0
        for source, need in self._rooms.needs.items():
            total += max(
                (self._least_for(index, source, resource, amount) for resource, amount in enumerate(need) if amount),
                default=0.0,
            )
        return total * (1 - _ROUNDING)

    def _least_for(self, index: int, source: str, resource: int, amount: float) -> float:
        cost = 0.0
        for own, takes, to_copy in self._cheapest[source, resource]:
            if own < index:
                continue
            if takes >= amount * (1 - _ROUNDING):
                return cost + to_copy * amount / takes
            amount -= takes
            cost += to_copy
        return inf


def left(need: Amounts, uses: Amounts) -> Amounts:
    """What is still needed; nothing where that is rounding."""
    return Amounts(*(own - less if own - less > _ROUNDING * own else 0.0 for own, less in zip(need, uses, strict=True)))


def _useful(item: Item, need: Amounts) -> float:
    """What it takes off, as shares of what is to be taken off, added up."""
    return sum(min(own, wanted) / wanted for own, wanted in zip(item.uses, need, strict=True) if wanted > 0)


def _ratio(item: Item, need: Amounts) -> tuple[float, float, float]:
    useful = _useful(item, need)
    if useful <= 0:
        return inf, inf, 0.0
    return item.cost[0] / useful, item.cost[1] / useful, -useful


def taken(rooms: Rooms, items: Sequence[Item], placing: Placing) -> Rooms:
    """What is left of needs and room when they have moved."""
    by_name = {item.name: item for item in items}
    then = rooms.copy()
    for name, place in placing.items():
        then.put(by_name[name], place)
    return then
