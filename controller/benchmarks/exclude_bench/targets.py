"""What was asked for, held against what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .lists import NAIVE, OURS
from .stage_database import DatabaseCost
from .stage_rsync import SyncCost, SyncCosts

SECONDS = 0.5
MEMORY_MB = 200.0
FILTER_RATIO = 5.0


@dataclass(frozen=True)
class Target:
    """One number and its limit, in the same unit."""

    name: str
    measured: float
    limit: float
    unit: str
    at_most: bool

    @property
    def met(self) -> bool:
        """Whether the measured number is on the right side."""
        return self.measured <= self.limit if self.at_most else self.measured >= self.limit

    @property
    def shown(self) -> str:
        """The measured number to read."""
        return f"{self.measured:,.0f} {self.unit}" if self.measured >= 100 else f"{self.measured:.3g} {self.unit}"

    @property
    def verdict(self) -> str:
        """`ok`, or by how much it was missed."""
        if self.met:
            return "ok"
        return f"MISSED by {abs(self.measured - self.limit):.3g} {self.unit}"


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
        found.append(Target(name, ratio, FILTER_RATIO, "times", at_most=False))
    return found


def filter_ratio(costs: Sequence[SyncCost], scenario: str) -> float:
    """How many times longer rsync filters with the naive list, at least.

    What our list costs is hardly more than what two equal runs differ by. So it is the largest of its values that
    counts, against the smallest with the naive list; infinite if even that largest one is not above zero.
    """
    by_kind = {cost.kind: cost.filter_cpu for cost in costs if cost.scenario == scenario}
    ours = by_kind[OURS].high
    return by_kind[NAIVE].low / ours if ours > 0 else float("inf")
