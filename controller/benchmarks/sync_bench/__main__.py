"""`python -m sync_bench`: measures everything and prints it; see --help."""

from __future__ import annotations

import argparse
import os
import random
import sys
from pathlib import Path

from exclude_bench.scratch import default_parent, scratch_folder
from exclude_bench.tree import TreeWriter, data_files
from vcrecovery.errors import VCRecoveryError
from vcrecovery_lab.pair.pair import pair
from vcrecovery_lab.run import LabError

from .report import text
from .results import Results, as_json, targets
from .scale import FULL, QUICK, Scale
from .stage_parts import measure_parts
from .stage_passes import measure_passes
from .stage_writes import measure_writes

#: As the plan's default.
_HEARTBEAT_SECONDS = 10.0


def main() -> int:
    """The exit status: 0 although a target was missed, since this is a measurement."""
    parser = argparse.ArgumentParser(prog="sync_bench", description="How fast the sync is, and what it costs.")
    parser.add_argument("--quick", action="store_true", help="everything small: only to see that it runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to FILE too")
    parser.add_argument("--work", type=Path, metavar="FOLDER", help="where the tree is made and removed again")
    parser.add_argument("--seed", type=int, default=1, help="of the order of writes (default: 1)")
    options = parser.parse_args()
    try:
        with scratch_folder(options.work or default_parent()) as folder:
            results = _measured(folder, QUICK if options.quick else FULL, options.seed)
        if options.json:
            options.json.write_text(as_json(results), encoding="utf-8")
    except (VCRecoveryError, LabError, OSError) as error:
        sys.stderr.write(f"sync_bench: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("sync_bench: interrupted\n")
        return 130
    sys.stdout.write(text(results))
    return 0


def _measured(folder: Path, scale: Scale, seed: int) -> Results:
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


if __name__ == "__main__":
    sys.exit(main())
