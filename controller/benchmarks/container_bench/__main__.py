"""`python -m container_bench`: measures everything and prints it; see --help."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from exclude_bench.command import Benchmark
from vcrecovery_lab.lab import hypervisor
from vcrecovery_lab.layout import read_layout
from vcrecovery_lab.progress import stderr_progress
from vcrecovery_lab.run import run

from .loads import NETWORK, Load, loads, prepare, received
from .results import Results, targets, text
from .rounds import a_round
from .scale import FULL, QUICK, Scale
from .sides import Sides, sides


def _measured(folder: Path, quick: bool, _seed: int) -> Results:
    scale = QUICK if quick else FULL
    load = os.getloadavg()[0]
    folder.chmod(0o755)
    run(["iperf3", "--version"], timeout=30)
    on_a_side = {entry.name: entry for entry in loads(scale)}
    units = {**{name: entry.unit for name, entry in on_a_side.items()}, NETWORK: "Mbit/s"}
    with ExitStack() as ends:
        ends.enter_context(hypervisor(read_layout()))
        found = ends.enter_context(sides(folder, stderr_progress))
        names = list(found.machines)
        with stderr_progress("files to read and to copy"):
            for side in names:
                found.run(side, prepare(scale), 300)
        measure = _measure(found, on_a_side, scale)
        rounds = [a_round(n, list(units), names, measure, stderr_progress) for n in range(scale.rounds)]
    of_targets = targets(scale, names, rounds)
    return Results(scale, load, found.accelerator, found.versions, units, names, found.not_run, rounds, of_targets)


def _measure(found: Sides, on_a_side: Mapping[str, Load], scale: Scale) -> Callable[[str, str], float]:
    patience = 60.0 + 10 * scale.seconds

    def measure(load: str, side: str) -> float:
        if load == NETWORK:
            # The server runs on the side; it is this machine that sends.
            words = ["iperf3", "-c", found.machines[side].ip, "-t", str(scale.seconds), "-J"]
            return received(run(words, timeout=patience).stdout)
        entry = on_a_side[load]
        return entry.figure(found.run(side, entry.command, patience))

    return measure


def main() -> int:
    return Benchmark(
        name="container_bench",
        about="What a container in a VM loses against that VM: operations, files, network.",
        seed_of="nothing: nothing is drawn by lot here",
        measure=_measured,
        text=text,
        work_help="for the VM's disk: a real disk",
        work=Path("/var/tmp"),  # noqa: S108  a folder of its own is made in it
    ).main()


if __name__ == "__main__":
    sys.exit(main())
