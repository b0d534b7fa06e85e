"""`python -m move_bench`: measures everything and prints it; see --help."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from exclude_bench.command import Benchmark
from vcrecovery_lab.pair.waiting import wait_until
from vcrecovery_lab.progress import stderr_progress

from .client import asking, counting
from .results import Moved, Results, targets, text
from .scale import FULL, QUICK
from .sides import COUNTER_PORT, KEPT, NAME, NEW, OLD, PORT, SharedSides, Sides, shared_sides, sides
from .ways import RSYNC, STATEFUL, WAYS, go_back, prepare


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
    (shared := folder / "shared").mkdir(mode=0o755)
    with shared_sides(shared, scale, stderr_progress) as found:
        for number, entry in enumerate(rounds, 1):
            entry[STATEFUL] = _moved_with_memory(found, number)
    return Results(scale, load, rounds, targets(scale, rounds))


def _moved_with_memory(found: SharedSides, number: int) -> Moved:
    with (
        stderr_progress(f"round {number}: {STATEFUL}"),
        asking([KEPT], PORT) as asked,
        counting(KEPT, COUNTER_PORT) as connection,
    ):
        wait_until(lambda: bool(asked.answered[KEPT]) and connection.count > 0, "an answer", 60, 0.01)
        begun = time.monotonic()
        found.vcrecovery("move", NAME, "--to", "sec2", "--how", "stateful")
        ended = time.monotonic()
        counted = connection.count
        wait_until(lambda: asked.answered[KEPT][-1] > ended, "an answer there", 60, 0.01)
        wait_until(lambda: connection.count > counted or bool(connection.broken), "the connection", 60, 0.01)
    found.vcrecovery("move", NAME, "--to", "sec1", "--how", "stateful")
    found.second.lxc("delete", "--force", NAME)
    return Moved(
        ended - begun, asked.longest_gap(KEPT), broken=int(bool(connection.broken)), lost=len(asked.lost[KEPT])
    )


def _moved(found: Sides, way: str, number: int) -> Moved:
    prepare(found, way)
    found.serves(OLD)
    with stderr_progress(f"round {number}: {way}"), asking([OLD, NEW], PORT) as asked:
        # A stop that comes before the first answer would leave nothing to reckon from.
        wait_until(lambda: bool(asked.answered[OLD]), "an answer here", 60, 0.01)
        before, begun = bytes_over_loopback(), time.monotonic()
        WAYS[way](found)
        seconds, megabytes = time.monotonic() - begun, (bytes_over_loopback() - before) / 1e6
        wait_until(lambda: bool(asked.answered[NEW]), "an answer there", 60, 0.01)
    go_back(found, way)
    return Moved(
        seconds,
        asked.interruption(OLD, NEW),
        lost=asked.lost_meanwhile(OLD, NEW),
        # rsync is on one machine, and uses no network.
        megabytes=None if way == RSYNC else megabytes,
    )


def bytes_over_loopback(table: Path = Path("/proc/net/dev")) -> int:
    """What this machine has sent to itself; the LXDs send the container so, and nobody else much."""
    (line,) = (line for line in table.read_text().splitlines() if line.strip().startswith("lo:"))
    return int(line.partition(":")[2].split()[0])


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
