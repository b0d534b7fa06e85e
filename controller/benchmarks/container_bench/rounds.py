"""Rounds, in which every load has its turn on every side."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from vcrecovery_lab.progress import Progress
from vcrecovery_lab.run import LabError

from .loads import NoFigureError


@dataclass(frozen=True)
class Got:
    """A figure; None when `missing` says why there is none."""

    figure: float | None
    missing: str = ""


#: Load -> side -> what it gave there.
Round = Mapping[str, Mapping[str, Got]]


def order(number: int, sides: Sequence[str]) -> list[str]:
    """Each side is the first in one round, the last in another: what the machine does meanwhile meets all of them."""
    first = number % len(sides)
    return [*sides[first:], *sides[:first]]


def a_round(
    number: int,
    loads: Sequence[str],
    sides: Sequence[str],
    measure: Callable[[str, str], float],
    progress: Progress,
) -> Round:
    """`measure(load, side)`. What has no figure is written down, and the round goes on."""
    found: dict[str, dict[str, Got]] = {}
    for turn, load in enumerate(loads):
        with progress(f"round {number + 1}: {load}"):
            got = {side: _got(measure, load, side) for side in order(number + turn, sides)}
        found[load] = {side: got[side] for side in sides}
    return found


def _got(measure: Callable[[str, str], float], load: str, side: str) -> Got:
    try:
        return Got(measure(load, side))
    except (LabError, NoFigureError) as error:
        return Got(None, str(error))


@dataclass(frozen=True)
class Compared:
    """A side's figures by the VM's, of the rounds in which both have one; `void`: why the other rounds have none."""

    ratios: Sequence[float]
    void: Sequence[str]

    @property
    def median(self) -> float | None:
        return median(self.ratios) if self.ratios else None

    def judged(self, needed: int) -> float | None:
        return self.median if len(self.ratios) >= needed else None

    def void_because(self, needed: int) -> str:
        left, whole = len(self.ratios), len(self.ratios) + len(self.void)
        return f"{left} of {whole} rounds are left, {needed} are needed; {'; '.join(self.void)}"


def compare(rounds: Sequence[Round], loads: Sequence[str], side: str, base: str) -> Compared:
    """Of several loads, the geometric mean of their ratios in a round, as UnixBench reckons its total."""
    ratios, void = [], []
    for number, entry in enumerate(rounds, 1):
        gaps = [
            f"{load}: {name}: {entry[load][name].missing}"
            for load in loads
            for name in (side, base)
            if entry[load][name].figure is None
        ]
        if gaps:
            void.append(f"round {number}: {' and '.join(gaps)}")
            continue
        pairs = [(entry[load][side].figure or 0.0, entry[load][base].figure or 0.0) for load in loads]
        ratios.append(math.exp(sum(math.log(ours / theirs) for ours, theirs in pairs) / len(pairs)))
    return Compared(ratios, void)
