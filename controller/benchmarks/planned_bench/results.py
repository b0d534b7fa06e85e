"""All that the benchmark found out, and what was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from exclude_bench.target import Target
from recovery_bench.results import spread
from relay_bench.results import section, verdicts

from .stage_drill import Visible
from .stage_files import Copy
from .stage_rounds import Move

#: A failback interrupts the service no longer than so many times its services' start in the VM.
RATIO = 3.0
_VERBS = ("failover", "switchover", "failback")


@dataclass(frozen=True)
class Results:
    load: float
    """Of the machine at the start: processes that wanted to run."""
    moves: Sequence[Move]
    copies: Sequence[Copy]
    drills: Sequence[Visible]
    targets: Sequence[Target]


def of(moves: Sequence[Move], verb: str) -> list[Move]:
    return [move for move in moves if move.verb == verb]


def interruptions(moves: Sequence[Move]) -> list[float]:
    """Of each failback, in starts of the VM's services: from the hand-over to open ports."""
    return [move.gap / max(0.001, move.steps["probe"]) for move in of(moves, "failback")]


def targets(moves: Sequence[Move]) -> list[Target]:
    planned = [*of(moves, "switchover"), *of(moves, "failback")]
    ratios = interruptions(moves)
    interrupted = "failback: interruption / start of the VM's services"
    return [
        Target(
            "acknowledged rows lost in planned moves",
            float(sum(move.lost for move in planned)),
            0.0,
            "",
            True,
            must=True,
        ),
        Target(interrupted, median(ratios), RATIO, "", True),
    ]


def text(results: Results) -> str:
    rows = []
    for verb in _VERBS:
        moves = of(results.moves, verb)
        if moves:
            lost = sum(move.lost for move in moves)
            rows.append((verb, str(len(moves)), spread([move.gap for move in moves]), str(lost)))
    title = f"Last row of one side to the first of the other, seconds (load of the machine before: {results.load:.1f})"
    sections = [section(title, ("", "times", "median (lowest to highest)", "rows lost"), rows)]
    sections.append(section("What the time goes into, seconds", ("", "step", "median (range)"), _steps(results.moves)))
    copies = [
        (x.what, f"{x.files:,}", f"{x.megabytes:.1f}", f"{x.copying:.1f}", f"{x.last:.1f}", f"{x.whole:.1f}")
        for x in results.copies
    ]
    heads = ("failback", "files fetched", "MB", "copy s", "last copy s", "whole s")
    sections.append(section("Many files", heads, copies))
    seen = [
        (x.what, str(x.rows), f"{x.median:.2f}", f"{x.p99:.2f}", f"{x.high:.2f}", f"{x.drills} of {x.drill:.1f} s")
        for x in results.drills
    ]
    heads = ("row to standby, seconds", "rows", "median", "p99", "highest", "drills")
    sections.append(section("What a drill costs the sync", heads, seen))
    sections.append(verdicts(results.targets))
    return "\n".join(sections)


def _steps(moves: Sequence[Move]) -> list[tuple[str, str, str]]:
    rows: list[tuple[str, str, str]] = []
    for verb in _VERBS:
        of_verb = of(moves, verb)
        names = list(of_verb[0].steps) if of_verb else []
        rows += [(verb, step, spread([move.steps.get(step, 0.0) for move in of_verb], 2)) for step in names]
    return rows
