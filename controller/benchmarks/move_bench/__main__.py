"""`python -m move_bench`: measures everything and prints it; see --help."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from exclude_bench.command import Benchmark
from vcrecovery_lab.pair.waiting import wait_until
from vcrecovery_lab.progress import stderr_progress

from .client import asking
from .results import Moved, Results, targets, text
from .scale import FULL, QUICK
from .sides import NEW, OLD, PORT, Sides, sides
from .ways import WAYS, go_back, prepare


def _measured(folder: Path, quick: bool, _seed: int) -> Results:
    scale = QUICK if quick else FULL
    load = os.getloadavg()[0]
    folder.chmod(0o755)
    rounds = []
    with sides(folder, scale, stderr_progress) as found:
        for number in range(scale.rounds):
            # Each comes first in turn.
            names = list(WAYS)
            names = names[number % len(names) :] + names[: number % len(names)]
            rounds.append({name: _moved(found, name, number + 1) for name in names})
    return Results(scale, load, rounds, targets(scale, rounds))


def _moved(found: Sides, way: str, number: int) -> Moved:
    prepare(found, way)
    found.serves(OLD)
    with stderr_progress(f"round {number}: {way}"), asking([OLD, NEW], PORT) as asked:
        # A stop that comes before the first answer would leave nothing to reckon from.
        wait_until(lambda: bool(asked.answered[OLD]), "an answer here", 60, 0.01)
        begun = time.monotonic()
        WAYS[way](found)
        seconds = time.monotonic() - begun
        wait_until(lambda: bool(asked.answered[NEW]), "an answer there", 60, 0.01)
    go_back(found, way)
    return Moved(seconds, asked.interruption(OLD, NEW))


def main() -> int:
    return Benchmark(
        name="move_bench",
        about="How long a container that serves is down while it moves to another LXD.",
        seed_of="nothing: nothing is drawn by lot here",
        measure=_measured,
        text=text,
        work_help="for the plan and the journal",
    ).main()


if __name__ == "__main__":
    sys.exit(main())
