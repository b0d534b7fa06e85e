"""How often, how long, and how large."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Rounds of each load on each side, and seconds that one takes."""

    rounds: int
    needed: int
    """So many rounds of a comparison must be left, or it is void."""
    seconds: int
    copied_mib: int
    """Of each file copy."""
    file_mib: int
    """That fio reads and writes."""


FULL = Scale(rounds=3, needed=3, seconds=4, copied_mib=16, file_mib=256)
QUICK = Scale(rounds=1, needed=1, seconds=1, copied_mib=4, file_mib=32)
