"""`python -m planned_bench`: measures everything and prints it; see --help. It needs the lab of `make lab-up`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from exclude_bench.command import Benchmark
from vcrecovery_lab.layout import read_layout

from .results import Results, targets, text
from .stage_drill import drill_costs
from .stage_files import many_files
from .stage_rounds import rounds, the_bench

ROUNDS, QUICK_ROUNDS = 20, 2
#: Of the rounds, so many begin with a crash in place of a switchover.
CRASHES, QUICK_CRASHES = 5, 1
FILES, QUICK_FILES = 20_000, 1_000
#: Of each kind, with a drill and without.
ROWS, QUICK_ROWS = 200, 20


def _measured(_folder: Path, quick: bool, _seed: int) -> Results:
    bench, load = the_bench(read_layout()), os.getloadavg()[0]
    moved = rounds(bench, QUICK_ROUNDS if quick else ROUNDS, QUICK_CRASHES if quick else CRASHES)
    files = many_files(bench, QUICK_FILES if quick else FILES)
    drills = drill_costs(bench, QUICK_ROWS if quick else ROWS)
    return Results(load, moved, files, drills, targets(moved))


def main() -> int:
    return Benchmark(
        name="planned_bench",
        about="How long a planned move interrupts a service, and what it loses.",
        seed_of="nothing",
        measure=_measured,
        text=text,
    ).main()


if __name__ == "__main__":
    sys.exit(main())
