"""How often."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Rounds of each way to recover; `overhead`: services of a simulated server -> rounds."""

    rounds: int
    overhead: dict[int, int]


FULL = Scale(rounds=5, overhead={4: 15, 200: 5})
QUICK = Scale(rounds=1, overhead={4: 2})
