"""What was asked for, held against what was measured."""

from __future__ import annotations

from collections.abc import Sequence

from .lists import NAIVE, OURS
from .stage_database import DatabaseCost
from .stage_rsync import SyncCost, SyncCosts
from .target import Target

SECONDS = 0.5
MEMORY_MB = 200.0
FILTER_RATIO = 5.0


def targets(database: DatabaseCost, syncs: SyncCosts) -> list[Target]:
    """All targets, in the order in which they were asked for."""
    size = f"{database.packages:,} packages, {database.paths:,} paths"
    found = [
        Target(f"list of {size}: time", database.wall.median, SECONDS, "s", at_most=True),
        Target(f"list of {size}: memory", database.peak_memory / 1e6, MEMORY_MB, "MB", at_most=True),
    ]
    for scenario in dict.fromkeys(cost.scenario for cost in syncs.costs):
        ratio = filter_ratio(syncs.costs, scenario)
        name = f"rsync, {scenario}: filter CPU time, naive / ours at least"
        void = "a list cost no measurable time"
        found.append(Target(name, ratio, FILTER_RATIO, "times", at_most=False, void_because=void))
    return found


def filter_ratio(costs: Sequence[SyncCost], scenario: str) -> float | None:
    """How many times longer rsync filters with the naive list, at least.

    What our list costs is hardly more than what two equal runs differ by. So it is the largest of its values that
    counts, against the smallest with the naive list. None where either is not above zero: no list is free, so what was
    measured is the machine's noise.
    """
    by_kind = {cost.kind: cost.filter_cpu for cost in costs if cost.scenario == scenario}
    ours, naive = by_kind[OURS].high, by_kind[NAIVE].low
    return naive / ours if ours > 0 and naive > 0 else None
