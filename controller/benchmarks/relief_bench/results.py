"""All that the benchmark found out, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from exclude_bench.target import Target
from relay_bench.results import section, verdicts

from .scale import Scale

_BLOCKS = " ▁▂▃▄▅▆▇█"
_WIDTH = 100


@dataclass(frozen=True)
class Results:
    """Seconds since the clients began. `answers`: when each service gave one. `moved`: those that went.

    `asked`: when `vcrecovery rebalance` was called; `ended`: when it was done. `load`: of the machine before.
    """

    scale: Scale
    load: float
    answers: Mapping[str, Sequence[float]]
    moved: Sequence[str]
    asked: float
    ended: float
    until: float
    said: str
    targets: Sequence[Target]


def rate(answers: Sequence[float], begin: float, end: float) -> float:
    """Answers in a second."""
    return sum(begin <= at < end for at in answers) / (end - begin)


def longest_gap(answers: Sequence[float]) -> float:
    return max((after - before for before, after in pairwise(answers)), default=float("inf"))


def targets(
    scale: Scale, answers: Mapping[str, Sequence[float]], moved: Sequence[str], asked: float, ended: float, until: float
) -> list[Target]:
    """Void where nothing was moved: then there was nothing to relieve."""
    before = {name: rate(each, asked - scale.before, asked) for name, each in answers.items()}
    after = {name: rate(each, ended, until) for name, each in answers.items()}
    stayed = [after[name] / before[name] for name in answers if name not in moved and before[name]]
    whole = sum(after.values()) / sum(before.values()) if moved and sum(before.values()) else None
    void = "nothing was moved"
    return [
        Target("all four, after / before", whole, 1.5, "", at_most=False, void_because=void),
        Target(
            "the least of those that stayed, after / before",
            min(stayed, default=None) if moved else None,
            1.2,
            "",
            at_most=False,
            void_because=void,
        ),
    ]


def text(results: Results) -> str:
    begin = results.asked - results.scale.before
    phases = ((begin, results.asked), (results.asked, results.ended), (results.ended, results.until))
    rows = []
    for name, answers in results.answers.items():
        rates = [f"{rate(answers, *phase):.1f}" for phase in phases]
        went = "went to sec2" if name in results.moved else "stayed"
        rows.append((name, *rates, f"{longest_gap(answers):.1f}", went))
    everything = [f"{sum(rate(each, *phase) for each in results.answers.values()):.1f}" for phase in phases]
    rows.append(("all", *everything, "", ""))
    title = (
        f"Four services on one core; two may leave to another one ({results.ended - results.asked:.1f} s from "
        f"`vcrecovery rebalance` to its end; load of the machine before: {results.load:.1f})"
    )
    heads = ("answers in a second", "before", "during", "after", "longest gap, s", "")
    return "\n".join(
        [
            section(title, heads, rows),
            plotted(results),
            verdicts(results.targets),
        ]
    )


def plotted(results: Results) -> str:
    """A line of blocks for each service, as high as its answers in that time."""
    step = max(1.0, results.until / _WIDTH)
    columns = int(results.until / step)
    rates = {
        name: [rate(answers, n * step, (n + 1) * step) for n in range(columns)]
        for name, answers in results.answers.items()
    }
    most = max((value for each in rates.values() for value in each), default=0.0) or 1.0
    width = max(len(name) for name in rates)
    lines = [f"  {step:.1f} s a column; a whole block: {most:.1f} answers in a second"]
    for name, each in rates.items():
        lines.append(
            f"  {name:<{width}} " + "".join(_BLOCKS[round(value / most * (len(_BLOCKS) - 1))] for value in each)
        )
    marks = [" "] * (columns + 1)
    marks[min(columns, int(results.asked / step))] = "^"
    marks[min(columns, int(results.ended / step))] = "$"
    lines.append(f"  {'':<{width}} {''.join(marks).rstrip()}   ^ `vcrecovery rebalance`   $ its end")
    return "\n".join(lines) + "\n"
