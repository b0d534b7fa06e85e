"""The benchmarks that the paper's figures come from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bench:
    """`module` is run as a program of its own."""

    module: str
    takes: str
    figures: str


RECOVERY, USERS, EXCLUDES, CONTAINERS, MOVES = "recovery", "users", "excludes", "containers", "moves"
#: In the order of their figures in the paper.
BENCHES = {
    RECOVERY: Bench("recovery_bench", "an hour", "9a, 10a"),
    USERS: Bench("recovery_bench.users", "an hour", "9a, 10a"),
    EXCLUDES: Bench("exclude_bench", "ten minutes", "11a, 11b"),
    CONTAINERS: Bench("container_bench", "20 minutes", "12, 13, 14"),
    MOVES: Bench("move_bench", "ten minutes", "15"),
}
