"""Services that belong together, and which of them need which."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vcrecovery.plan.model import Plan

Key = tuple[str | int, ...]


def group_problems(plan: Plan) -> Iterator[tuple[Key, str]]:
    """What is wrong with groups and needs, beside names that the plan does not have."""
    group_of: dict[str, str] = {}
    for group, entry in plan.groups.items():
        for index, service in enumerate(entry.services):
            if other := group_of.get(service):
                yield ("groups", group, "services", index), f"service {service} is in group {other} already"
            group_of[service] = group
    yield from _circles(plan)


def _circles(plan: Plan) -> Iterator[tuple[Key, str]]:
    needs = {name: set(service.needs) for name, service in plan.services.items()}
    while True:
        try:
            TopologicalSorter(needs).prepare()
            return
        except CycleError as error:
            # graphlib names each before those that need it.
            circle: list[str] = list(reversed(error.args[1]))
            first, second = circle[0], circle[1]
            index = plan.services[first].needs.index(second)
            yield ("services", first, "needs", index), f"is a circle: {' needs '.join(circle)}; none could start first"
            needs[first].discard(second)


def hypervisors_of(plan: Plan, site: str) -> set[str]:
    return {name for name, entry in plan.hypervisors.items() if entry.site == site}
