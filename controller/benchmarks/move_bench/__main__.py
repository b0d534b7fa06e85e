"""`python -m move_bench`: measures everything and prints it; see --help."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from exclude_bench.command import Benchmark
from vcrecovery.errors import VCRecoveryError
from vcrecovery_lab.pair.waiting import wait_until
from vcrecovery_lab.progress import stderr_progress
from vcrecovery_lab.run import LabError

from .client import asking, counting
from .results import Missing, Moved, Results, targets, text
from .scale import FULL, FULL_IN_VMS, QUICK, QUICK_IN_VMS
from .sides import COUNTER_PORT, NAME, PORT, Sides, shared_sides, sides
from .vms import VmSides, vm_sides
from .ways import RSYNC, STATEFUL, WAYS, go_back, prepare

#: A way that has failed so often is tried no more.
_FAILURES = 2


def _measured(folder: Path, quick: bool, _seed: int) -> Results:
    scale = QUICK if quick else FULL
    load = os.getloadavg()[0]
    folder.chmod(0o755)
    with sides(folder, scale, stderr_progress) as found:
        numbers = range(1, scale.rounds + 1)
        rounds = [{name: _moved(found, name, number) for name in _in_turn(number)} for number in numbers]
    (shared := folder / "shared").mkdir(mode=0o755)
    with shared_sides(shared, scale, stderr_progress) as found:
        for number, entry in enumerate(rounds, 1):
            entry[STATEFUL] = _moved_with_memory(found, number)
    return Results(scale, load, rounds, targets(scale, rounds))


def _measured_in_vms(folder: Path, quick: bool, _seed: int) -> Results:
    scale = QUICK_IN_VMS if quick else FULL_IN_VMS
    load = os.getloadavg()[0]
    folder.chmod(0o755)
    rounds: list[dict[str, Moved]] = [{} for _ in range(scale.rounds)]
    missing: list[Missing] = []
    with vm_sides(folder, scale, stderr_progress) as found:
        found.lay_out(stderr_progress)
        for number, entry in enumerate(rounds, 1):
            for way in _in_turn(number):
                _moved_or_missing(found, way, number, entry, missing)
        found.share()
        for number, entry in enumerate(rounds, 1):
            _moved_or_missing(found, STATEFUL, number, entry, missing)
        return Results(scale, load, rounds, targets(scale, rounds), missing, found.accelerator)


def _moved_or_missing(found: VmSides, way: str, number: int, entry: dict[str, Moved], missing: list[Missing]) -> None:
    if sum(one.way == way for one in missing) >= _FAILURES:
        missing.append(Missing(number, way, f"not tried: it had failed {_FAILURES} times"))
        return
    try:
        entry[way] = _moved_with_memory(found, number) if way == STATEFUL else _moved(found, way, number)
    except (VCRecoveryError, LabError) as error:
        missing.append(Missing(number, way, " ".join(str(error).split())))
        sys.stderr.write(f"{missing[-1].why}\n")
        found.lay_out(stderr_progress)


def _in_turn(number: int) -> list[str]:
    """Each comes first in turn."""
    names, at = list(WAYS), (number - 1) % len(WAYS)
    return names[at:] + names[:at]


def _moved_with_memory(found: Sides, number: int) -> Moved:
    kept, _ = found.addresses
    with (
        stderr_progress(f"round {number}: {STATEFUL}"),
        asking([kept], PORT, found.pace) as asked,
        counting(kept, COUNTER_PORT, found.pace) as connection,
    ):
        wait_until(lambda: bool(asked.answered[kept]) and connection.count > 0, "an answer", 60, 0.01)
        before, begun = bytes_received(found.card), time.monotonic()
        found.vcrecovery("move", NAME, "--to", "sec2", "--how", "stateful")
        ended, megabytes = time.monotonic(), (bytes_received(found.card) - before) / 1e6
        counted = connection.count
        wait_until(lambda: asked.answered[kept][-1] > ended, "an answer there", 60, 0.01)
        wait_until(lambda: connection.count > counted or bool(connection.broken), "the connection", 60, 0.01)
    found.vcrecovery("move", NAME, "--to", "sec1", "--how", found.goes_back)
    found.second.lxc("delete", "--force", NAME)
    return Moved(
        ended - begun,
        asked.longest_gap(kept),
        broken=int(bool(connection.broken)),
        lost=len(asked.lost[kept]),
        megabytes=megabytes if found.counts_all else None,
    )


def _moved(found: Sides, way: str, number: int) -> Moved:
    old, new = found.addresses
    prepare(found, way)
    found.serves(old)
    with stderr_progress(f"round {number}: {way}"), asking([old, new], PORT, found.pace) as asked:
        # A stop that comes before the first answer would leave nothing to reckon from.
        wait_until(lambda: bool(asked.answered[old]), "an answer here", 60, 0.01)
        before, begun = bytes_received(found.card), time.monotonic()
        WAYS[way](found)
        seconds, megabytes = time.monotonic() - begun, (bytes_received(found.card) - before) / 1e6
        wait_until(lambda: bool(asked.answered[new]), "an answer there", 60, 0.01)
    go_back(found, way)
    return Moved(
        seconds,
        asked.interruption(old, new),
        lost=asked.lost_meanwhile(old, new),
        megabytes=megabytes if found.counts_all or way != RSYNC else None,
    )


def bytes_received(card: str, table: Path = Path("/proc/net/dev")) -> int:
    """By this machine on one of its cards."""
    (line,) = (line for line in table.read_text().splitlines() if line.strip().startswith(f"{card}:"))
    return int(line.partition(":")[2].split()[0])


def main() -> int:
    return Benchmark(
        name="move_bench",
        about="How long a container that serves is down while it moves to another LXD.",
        seed_of="nothing: nothing is drawn by lot here",
        measure=_measured,
        instead={"--vms": ("between two LXDs in two VMs, instead of side by side on this machine", _measured_in_vms)},
        text=text,
        work_help="for the plan and the journal, and the VMs' disks",
    ).main()


if __name__ == "__main__":
    sys.exit(main())
