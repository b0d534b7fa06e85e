"""Results of the benchmark of containers, as a test wants them."""

from __future__ import annotations

from container_bench.loads import FIO, NETWORK, UNIXBENCH, loads
from container_bench.results import Results, targets
from container_bench.rounds import Got, Round
from container_bench.scale import FULL
from container_bench.sides import VM

SIDES = (VM, "C.dir", "C.btrfs")


def a_whole_round(**ratios: float) -> Round:
    """The VM has 100 of each; containers have `dir` and `btrfs` of that."""
    of = {VM: 1.0, **{f"C.{pool}": ratio for pool, ratio in ratios.items()}}
    return {load: {side: Got(100.0 * of[side]) for side in of} for load in (*UNIXBENCH, *FIO, NETWORK)}


def results(*rounds: Round) -> Results:
    units = {**{load.name: load.unit for load in loads(FULL)}, NETWORK: "Mbit/s"}
    found = targets(FULL, SIDES, rounds)
    return Results(FULL, 0.5, "qemu", {"fio": "3.33"}, units, SIDES, {"zfs": "no driver"}, rounds, found)
