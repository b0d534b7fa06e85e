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
#: In VMs: emulated CPUs need a minute for what others copy in two seconds.
FULL_IN_VMS, QUICK_IN_VMS = Scale(5, 3, 60, 1_500, 16), Scale(1, 1, 10, 100, 4)
