"""What is missing of a plan by which services share the price of a secondary."""

from __future__ import annotations

from collections.abc import Iterator

from vcrecovery.plan.costs import Split
from vcrecovery.plan.model import Plan
from vcrecovery.plan.problems import Key


def share_problems(plan: Plan) -> Iterator[tuple[Key, str]]:
    if plan.costs is None or plan.costs.split is not Split.MEMORY:
        return
    for name, service in plan.services.items():
        if service.cost is None or service.cost.memory is None:
            yield ("services", name), "has no cost.memory, by which costs.split (memory) has secondaries paid for"
