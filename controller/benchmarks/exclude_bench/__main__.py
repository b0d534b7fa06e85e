"""`python -m exclude_bench`: measures everything and prints it; see --help."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from vcrecovery.errors import VCRecoveryError
from vcrecovery.excludes import ExcludeError
from vcrecovery_lab.progress import stderr_progress

from .report import text
from .results import Results, as_json
from .root import build_root
from .scale import FULL, QUICK, Scale
from .scratch import default_parent, scratch_folder
from .stage_database import measure_database
from .stage_lists import measure_lists
from .stage_lsyncd import measure_lsyncd
from .stage_rsync import measure_rsync
from .targets import targets


def main() -> int:
    """The exit status: 0 although a target was missed, since this is a measurement."""
    work = os.environ.get("VCRECOVERY_BENCH_WORK")
    parser = argparse.ArgumentParser(prog="exclude_bench", description="What an exclude list costs.")
    parser.add_argument("--quick", action="store_true", help="everything small: only to see that it runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to FILE too")
    parser.add_argument(
        "--work",
        type=Path,
        metavar="FOLDER",
        default=Path(work) if work else None,
        help="where the trees are made and removed again, up to 6 GB, 2 million files (default: "
        "$VCRECOVERY_BENCH_WORK, or /dev/shm if there is room, or where temporary files go)",
    )
    parser.add_argument("--seed", type=int, default=1, help="of the generated trees (default: 1)")
    options = parser.parse_args()
    try:
        with scratch_folder(options.work or default_parent()) as folder:
            results = _measured(folder, QUICK if options.quick else FULL, options.seed)
        if options.json:
            options.json.write_text(as_json(results), encoding="utf-8")
    except (VCRecoveryError, ExcludeError, OSError) as error:
        sys.stderr.write(f"exclude_bench: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("exclude_bench: interrupted\n")
        return 130
    sys.stdout.write(text(results))
    return 0


def _measured(folder: Path, scale: Scale, seed: int) -> Results:
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


if __name__ == "__main__":
    sys.exit(main())
