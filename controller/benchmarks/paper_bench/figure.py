"""One figure of the paper, beside what was found here: what the page is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Self


@dataclass(frozen=True)
class Values:
    """Of one thing, in all runs."""

    median: float
    low: float
    high: float
    runs: int

    @classmethod
    def of(cls, each: Sequence[float]) -> Self:
        return cls(median(each), min(each), max(each), len(each))

    def shown(self, digits: int) -> str:
        if self.low == self.high:
            return f"{self.median:,.{digits}f}"
        return f"{self.median:,.{digits}f} ({self.low:,.{digits}f} to {self.high:,.{digits}f})"


def shown(each: Sequence[float], digits: int) -> str:
    return Values.of(each).shown(digits) if each else "none"


@dataclass(frozen=True)
class Row:
    """What stands beside each other; `ratio` is ours by `against`, in the same run."""

    what: str
    paper: str
    ours: str
    against: str = ""
    ratio: str = ""
    runs: str = ""


@dataclass(frozen=True)
class Plot:
    """Bars: group -> series -> values; None where there are none. `unit` is the axis'; `line`: what all is held by."""

    name: str
    title: str
    unit: str
    groups: Mapping[str, Mapping[str, Values | None]]
    line: float | None = None


@dataclass(frozen=True)
class Head:
    """One of the paper's figures, and in a sentence what the paper says of it. `benches`: whose results it needs."""

    number: str
    title: str
    paper: str
    benches: Sequence[str] = ()


@dataclass(frozen=True)
class Figure:
    """What was found of it here. `absent`: why there are no rows, if no benchmark's run says that.

    `void`: what has no figure, and why. `differs`: from the paper's experiment.
    """

    head: Head
    rows: Sequence[Row] = ()
    void: Sequence[str] = ()
    differs: Sequence[str] = ()
    plot: Plot | None = None
    absent: str = ""
