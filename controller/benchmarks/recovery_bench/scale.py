"""How often."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Rounds of each way to recover; `overhead`: services of a simulated server -> rounds."""

    rounds: int
    needed: int
    """So many rounds of a comparison must be left, or it is void."""
    overhead: dict[int, int]


#: As many rounds as there are ways: each is once the first, and once the last.
FULL = Scale(rounds=6, needed=5, overhead={4: 15, 200: 5})
QUICK = Scale(rounds=1, needed=1, overhead={4: 2})
