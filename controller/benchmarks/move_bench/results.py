"""All that the benchmark found out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from exclude_bench.target import Target
from relay_bench.results import section

from .scale import Scale
from .ways import RSYNC, STOPPED, WARM

#: What the paper says of a container of 807 to 945 MB.
PAPER_DOWN = (5.4, 9.0)
NOT_HAD = (
    "Not measured: with memory, processes and connections (CRIU), and LXD's own live move, which its version 5.0 does",
    "not have for containers. Both LXDs are on this machine, without VMs: what a wire or a VM costs is not in it.",
)


@dataclass(frozen=True)
class Moved:
    """Seconds: the whole, and without any answer."""

    seconds: float
    down: float | None


@dataclass(frozen=True)
class Results:
    scale: Scale
    load: float
    """Of the machine at the start: processes that wanted to run."""
    rounds: Sequence[Mapping[str, Moved]]
    targets: Sequence[Target]


def downs(rounds: Sequence[Mapping[str, Moved]], way: str) -> list[float]:
    return [entry[way].down or 0.0 for entry in rounds if entry[way].down is not None]


def targets(scale: Scale, rounds: Sequence[Mapping[str, Moved]]) -> list[Target]:
    """The issue's: a second at most, and a fifth of a stop, copy and start, each round by itself."""
    ours = downs(rounds, WARM)
    both = [(entry[STOPPED].down, entry[WARM].down) for entry in rounds]
    ratios = [theirs / mine for theirs, mine in both if theirs and mine]
    void = f"fewer than {scale.needed} rounds with a figure"
    return [
        Target(f"{WARM}: down", median(ours) if len(ours) >= scale.needed else None, 1.0, "s", True, void),
        Target(
            f"{STOPPED} / {WARM}: down", median(ratios) if len(ratios) >= scale.needed else None, 5.0, "", False, void
        ),
    ]


def _spread(each: Sequence[float]) -> str:
    return f"{median(each):.2f} ({min(each):.2f} to {max(each):.2f})" if each else "none"


def text(results: Results) -> str:
    scale = results.scale
    title = (
        f"A container of {scale.megabytes} MB moves while it serves, {len(results.rounds)} rounds "
        f"(load of the machine before: {results.load:.1f}): median (lowest to highest)"
    )
    rows = []
    for way in (WARM, STOPPED, RSYNC):
        found = [entry[way] for entry in results.rounds]
        rows.append((way, _spread([one.seconds for one in found]), _spread(downs(results.rounds, way))))
    low, high = PAPER_DOWN
    rows.append(("the paper", "", f"{low} to {high}"))
    sections = [section(title, ("", "whole, s", "down, s"), rows)]
    sections[0] += "".join(f"  {line}\n" for line in NOT_HAD)
    verdicts = [(x.name, x.shown, f"{'<=' if x.at_most else '>='} {x.limit:g}", x.verdict) for x in results.targets]
    sections.append(section("Targets", ("target", "measured", "limit", ""), verdicts))
    return "\n".join(sections)
