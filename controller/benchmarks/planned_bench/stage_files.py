"""A failback of many files: a first one that copies them all, and one after a hundredth of them has changed."""

from __future__ import annotations

from dataclasses import dataclass

from vcrecovery_lab.demo import controller
from vcrecovery_lab.layout import SERVICE
from vcrecovery_lab.progress import stderr_progress
from vcrecovery_lab.run import run

from .stage_rounds import Bench, is_protected, wait_for

_MAKE = """
import os, sys
count, every = int(sys.argv[1]), int(sys.argv[2])
for number in range(0, count, every):
    folder = f"/srv/many/{number // 100}"
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/{number}", "wb") as out:
        out.write(os.urandom(4096))
"""


@dataclass(frozen=True)
class Copy:
    """What the VM has fetched in one failback: seconds of the copy while the standby serves, and of the last one."""

    what: str
    files: int
    megabytes: float
    copying: float
    last: float
    whole: float


def many_files(bench: Bench, count: int) -> list[Copy]:
    try:
        return [
            _one(bench, f"{count:,} new files", count, 1),
            _one(bench, f"1 % of {count:,} files changed", count, 100),
        ]
    finally:
        bench.inside_vm("rm -rf /srv/many")


def _one(bench: Bench, what: str, count: int, every: int) -> Copy:
    wait_for(lambda: is_protected(bench), "a protected service")
    with stderr_progress(what):
        controller(bench.layout, "switchover", SERVICE, timeout=600)
        run(["lxc", "exec", SERVICE, "--", "python3", "-c", _MAKE, str(count), str(every)], timeout=300)
        controller(bench.layout, "failback", SERVICE, timeout=1800)
    episode = bench.newest()
    steps = {step["step"]: step for step in episode["steps"] if step["ok"]}
    copied, last = steps["copy"], steps["last copy"]
    return Copy(
        what,
        copied["evidence"]["files"] + last["evidence"]["files"],
        (copied["evidence"]["bytes"] + last["evidence"]["bytes"]) / 1e6,
        copied["ended_at"] - copied["begun_at"],
        last["ended_at"] - last["begun_at"],
        episode["closed_at"] - episode["opened_at"],
    )
