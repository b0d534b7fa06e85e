"""All that one benchmark found out, and what was asked for."""

from __future__ import annotations

from dataclasses import dataclass

from exclude_bench.target import Target

from .scale import Scale
from .stage_parts import Part
from .stage_passes import PassCosts
from .stage_writes import OURS, RECONCILING, WriteCosts

MEDIAN_SECONDS, P99_SECONDS = 2.0, 5.0


@dataclass(frozen=True)
class Results:
    """Seconds and bytes everywhere."""

    scale: Scale
    folders: int
    load: float
    """Of the machine at the start: processes that wanted to run."""
    passes: PassCosts
    writes: WriteCosts
    parts: list[Part]
    targets: list[Target]


def targets(writes: WriteCosts) -> list[Target]:
    """In the order in which they were asked for."""
    found = []
    for latency in writes.latencies:
        if latency.what in (OURS, RECONCILING):
            name = f"write to visible, {latency.what}"
            found.append(Target(f"{name}: median", latency.median, MEDIAN_SECONDS, "s", at_most=True))
            found.append(Target(f"{name}: p99", latency.p99, P99_SECONDS, "s", at_most=True))
    return found
