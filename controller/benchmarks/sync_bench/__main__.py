"""`python -m sync_bench`: measures everything and prints it; see --help."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

from exclude_bench.command import Benchmark
from exclude_bench.tree import TreeWriter, data_files
from vcrecovery_lab.pair.pair import pair

from .report import text
from .results import Results, targets
from .scale import FULL, QUICK
from .stage_parts import measure_parts
from .stage_passes import measure_passes
from .stage_writes import measure_writes

#: As the plan's default.
_HEARTBEAT_SECONDS = 10.0


def _measured(folder: Path, quick: bool, seed: int) -> Results:
    scale = QUICK if quick else FULL
    load = os.getloadavg()[0]
    tree = folder / "tree"
    tree.mkdir(mode=0o755)
    writer = TreeWriter(tree)
    data_files(writer, scale.first_files, scale.per_folder)
    paths: list[bytes] = []
    with pair(tree, beat=_HEARTBEAT_SECONDS) as made:
        passes = measure_passes(made, scale, lambda: paths.extend(data_files(writer, scale.files, scale.per_folder)))
        folders = len({path.rpartition(b"/")[0] for path in paths})
        random.Random(seed).shuffle(paths)
        writes = measure_writes(made, paths, scale)
        made.primary.run_dir.mkdir(exist_ok=True)
        parts = measure_parts(made)
    return Results(scale, folders, load, passes, writes, parts, targets(writes))


def main() -> int:
    return Benchmark(
        name="sync_bench",
        about="How fast the sync is, and what it costs.",
        seed_of="the order of writes",
        measure=_measured,
        text=text,
    ).main()


if __name__ == "__main__":
    sys.exit(main())
