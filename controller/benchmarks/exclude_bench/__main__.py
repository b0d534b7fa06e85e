"""`python -m exclude_bench`: measures everything and prints it; see --help."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from vcrecovery_lab.progress import stderr_progress

from .command import Benchmark
from .report import text
from .results import Results
from .root import build_root
from .scale import FULL, QUICK
from .stage_database import measure_database
from .stage_lists import measure_lists
from .stage_lsyncd import measure_lsyncd
from .stage_rsync import measure_rsync
from .targets import targets


def _measured(folder: Path, quick: bool, seed: int) -> Results:
    scale = QUICK if quick else FULL
    with stderr_progress("tree: this machine's packages, kernel packages, data"):
        root = build_root(folder / "root", scale, seed)
    lists, files = measure_lists(root, folder, scale.list_runs)
    database = measure_database(folder / "database", scale, seed)
    syncs = measure_rsync(root, files, folder, scale)
    events = measure_lsyncd(files, folder, scale)
    return Results(
        scale=scale,
        seed=seed,
        live=len(root.live),
        machine_paths=root.machine_paths,
        unneeded=len(root.unneeded),
        watched=scale.watched_directories,
        lists=lists,
        database=database,
        rsync=syncs,
        lsyncd=events,
        targets=targets(database, syncs),
    )


def main() -> int:
    work = os.environ.get("VCRECOVERY_BENCH_WORK")
    return Benchmark(
        name="exclude_bench",
        about="What an exclude list costs.",
        seed_of="the generated trees",
        measure=_measured,
        text=text,
        work_help="where the trees are made and removed again, up to 6 GB, 2 million files (default: "
        "$VCRECOVERY_BENCH_WORK, or /dev/shm if there is room, or where temporary files go)",
        work=Path(work) if work else None,
    ).main()


if __name__ == "__main__":
    sys.exit(main())
