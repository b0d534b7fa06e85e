"""One figure and its limit, and what may be said of the two. Every benchmark's verdicts are made here."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

#: A double has no more.
_ALL_DIGITS = 17


@dataclass(frozen=True)
class Target:
    """`measured` and `limit` are in the same unit."""

    name: str
    measured: float | None
    """None, or a number that is not finite: void. Nothing was measured, so nothing is met or missed."""
    limit: float
    unit: str
    at_most: bool
    void_because: str = "no finite figure"
    must: bool = False
    """Missing it is a fault, whatever the machine: the benchmark fails."""

    @property
    def void(self) -> bool:
        return self.measured is None or not math.isfinite(self.measured)

    @property
    def met(self) -> bool:
        """Whether the figure, as it was measured, is on the right side; a void one is not."""
        return not self.void and self._holds(self._figure)

    @property
    def shown(self) -> str:
        """The figure to read: with as many digits as it takes to be on the same side of the limit as it is."""
        if self.void:
            return "none"
        texts = (self._rounded(digits) for digits in range(3, _ALL_DIGITS + 1))
        found = next((text for text in texts if self._holds(float(text.replace(",", ""))) == self.met), None)
        return f"{found or repr(self._figure)} {self.unit}".strip()

    @property
    def limit_shown(self) -> str:
        return f"{'<=' if self.at_most else '>='} {self.limit:g} {self.unit}".rstrip()

    @property
    def verdict(self) -> str:
        """`ok`, or by how much it was missed, or why there is none."""
        if self.void:
            return f"VOID: {self.void_because}"
        if self.met:
            return "ok"
        return f"MISSED by {abs(self._figure - self.limit):.3g} {self.unit}".strip()

    @property
    def _figure(self) -> float:
        assert self.measured is not None  # noqa: S101  asked of what is not void
        return self.measured

    def _holds(self, figure: float) -> bool:
        return figure <= self.limit if self.at_most else figure >= self.limit

    def _rounded(self, digits: int) -> str:
        """To so many significant digits, but a large number keeps its units."""
        if not self._figure:
            return "0"
        decimals = max(0, digits - 1 - math.floor(math.log10(abs(self._figure))))
        text = f"{self._figure:,.{decimals}f}"
        return text.rstrip("0").rstrip(".") if decimals else text


def failures(targets: Iterable[Target]) -> list[str]:
    """Why a benchmark fails, a line each. A missed limit alone is no reason: that is a measurement."""
    return [f"{target.name}: {target.verdict}" for target in targets if target.void or (target.must and not target.met)]
