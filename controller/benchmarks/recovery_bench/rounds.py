"""Rounds, in which every way to recover has its turn, and the ratios of two ways. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median


class Way(StrEnum):
    """How the four services come back."""

    BOOTED = "booted VMs"
    RESUMED = "resumed VMs"
    RESTORED = "restored VMs"
    COLD = "cold containers"
    FROZEN = "frozen containers"
    WARM = "warm containers"
    HOT = "hot containers"


VMS = (Way.BOOTED, Way.RESUMED, Way.RESTORED)
#: Those of `recovery_bench`; what users wait for is measured of warm ones, too.
WAYS = (*VMS, Way.COLD, Way.FROZEN, Way.HOT)


@dataclass(frozen=True)
class Took:
    """Seconds from the request until all services were there; None when `missing` says what never was."""

    seconds: float | None
    missing: str = ""


Round = Mapping[Way, Took]


def order(number: int, ways: Sequence[Way] = WAYS) -> list[Way]:
    """Each way is the first in one round, the second in another: what a way leaves behind meets all others."""
    first = number % len(ways)
    return [*ways[first:], *ways[:first]]


@dataclass(frozen=True)
class Comparison:
    """Seconds of both sides in the rounds in which both have them; `void`: why the other rounds have none."""

    ours: Sequence[float]
    theirs: Sequence[float]
    void: Sequence[str]

    @property
    def ratios(self) -> list[float]:
        """Round by round, since what else the machine does changes over time."""
        return [ours / theirs for ours, theirs in zip(self.ours, self.theirs, strict=True)]

    @property
    def median_of_ratios(self) -> float | None:
        return median(self.ratios) if self.ours else None

    @property
    def ratio_of_medians(self) -> float | None:
        return median(self.ours) / median(self.theirs) if self.ours else None

    def judged(self, needed: int) -> float | None:
        """The worse of the two, for a limit from above; None when fewer rounds than are needed are left."""
        if self.median_of_ratios is None or self.ratio_of_medians is None or len(self.ours) < needed:
            return None
        return max(self.median_of_ratios, self.ratio_of_medians)

    def void_because(self, needed: int) -> str:
        left, whole = len(self.ours), len(self.ours) + len(self.void)
        return f"{left} of {whole} rounds are left, {needed} are needed; {'; '.join(self.void)}"


def compare(rounds: Sequence[Round], ours: Way, theirs: Way) -> Comparison:
    """A round in which either side has no answer is void: no answer is neither fast nor slow."""
    mine, others, void = [], [], []
    for number, entry in enumerate(rounds, 1):
        this, that = entry[ours].seconds, entry[theirs].seconds
        if this is None or that is None:
            void.append(f"round {number}: {' and '.join(missing(entry, ours, theirs))}")
        elif that <= 0:
            void.append(f"round {number}: {theirs}: no time passed")
        else:
            mine.append(this)
            others.append(that)
    return Comparison(mine, others, void)


def missing(entry: Round, *ways: Way) -> list[str]:
    """What did not come in a round, by name."""
    return [f"{way}: {entry[way].missing}" for way in ways if entry[way].seconds is None]
