"""Stage 3: what the time between lsyncd's decision and the standby goes into, each part alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from exclude_bench.measure import Spread, measured, spread
from vcrecovery.transfer.receiver import find_target
from vcrecovery_lab.pair.pair import Pair
from vcrecovery_lab.pair.standby import NAME, PROGRAM
from vcrecovery_lab.progress import stderr_progress

_RUNS = 7
_ONE = "srv/one"


@dataclass(frozen=True)
class Part:
    """Seconds."""

    what: str
    wall: Spread


def measure_parts(pair: Pair) -> list[Part]:
    """Each contains the ones after it, but for the last two, which are parts of the receiver."""
    ssh = f"ssh -F {pair.primary.ssh_config}"
    tree, local = pair.primary.tree, f"{PROGRAM} receive --state-dir {pair.standby.state} --local {NAME}"
    (tree / _ONE).parent.mkdir(exist_ok=True)

    def rsync(*words: str) -> Callable[[], None]:
        def once() -> None:
            (tree / _ONE).write_text(str(time.monotonic_ns()))
            measured(["rsync", "-aHAXS", "--numeric-ids", "--relative", *words], timeout=60)

        return once

    source, elsewhere = f"{tree}/./{_ONE}", tree.parent / "one"
    empty = ["env", "SSH_ORIGINAL_COMMAND=", str(PROGRAM), "--version"]
    parts: dict[str, Callable[[], None]] = {
        "one file through a new ssh connection": rsync("-e", f"{ssh} -o ControlPath=none", source, "receiver:/"),
        "one file through the connection that is kept": rsync("-e", ssh, source, "receiver:/"),
        "one file through the receiver without ssh": rsync("-e", local, source, "receiver:/"),
        "one file by rsync alone": rsync(source, f"{elsewhere}/"),
        "of the receiver: start of Python and the command line": lambda: void(measured(empty, timeout=60)),
        "of the receiver: LXD's answer": lambda: void(find_target(pair.standby.state, NAME)),
    }
    found = []
    with stderr_progress("parts: one file, several ways"):
        for what, once in parts.items():
            once()
            values = []
            for _ in range(_RUNS):
                began = time.perf_counter()
                once()
                values.append(time.perf_counter() - began)
            found.append(Part(what, spread(values)))
    return found


def void(_result: object) -> None:
    """Takes a result that nobody wants."""
