"""How much is moved, and how often."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """`megabytes` of `files` files, and of `memory`; `needed`: rounds without which there is no figure."""

    rounds: int
    needed: int
    megabytes: int
    files: int
    memory: int


#: The paper's containers had 807 to 945 MB.
FULL, QUICK = Scale(5, 3, 900, 20_000, 64), Scale(1, 1, 20, 200, 4)
