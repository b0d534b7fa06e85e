"""The benchmarks that the paper's figures come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Bench:
    """`module` is run as a program of its own, with `words`."""

    module: str
    takes: str
    figures: str
    words: Sequence[str] = ()

    @property
    def command(self) -> str:
        """As one knows it."""
        return " ".join([self.module, *self.words])


RECOVERY, USERS, EXCLUDES, CONTAINERS, MOVES = "recovery", "users", "excludes", "containers", "moves"
MOVES_IN_VMS = "moves-in-vms"
#: In the order of their figures in the paper.
BENCHES = {
    RECOVERY: Bench("recovery_bench", "an hour", "9a, 10a"),
    USERS: Bench("recovery_bench.users", "an hour", "9a, 10a"),
    EXCLUDES: Bench("exclude_bench", "ten minutes", "11a, 11b"),
    CONTAINERS: Bench("container_bench", "20 minutes", "12, 13, 14"),
    MOVES: Bench("move_bench", "ten minutes", "15"),
    MOVES_IN_VMS: Bench("move_bench", "25 minutes", "15", ("--vms",)),
}
