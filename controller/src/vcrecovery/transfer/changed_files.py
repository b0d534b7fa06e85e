"""Which files of a standby have changed since a moment: what has arrived there, or was written by what runs in it."""

from __future__ import annotations

import heapq
import stat
from dataclasses import dataclass
from pathlib import Path

from vcrecovery.transfer.tree_walk import everything_in

#: So many of the newest are named.
NAMED = 10
#: How the VM and its secondary keep in touch, which no user wrote.
_OURS = "/var/lib/vcrecovery/"


@dataclass(frozen=True)
class Changed:
    """How many, and the newest with their times, newest first."""

    count: int = 0
    newest: tuple[tuple[float, str], ...] = ()


def changed_since(rootfs: Path, moment: float) -> Changed:
    """What is deleted is not seen. By the time at which it changed here, whatever time the VM gave the file.

    Raises ExternalError when the tree cannot be read.
    """
    count, newest = 0, list[tuple[float, str]]()
    for name, found in everything_in(rootfs):
        at = found.st_ctime
        if at > moment and not stat.S_ISDIR(found.st_mode) and not name.startswith(_OURS):
            count += 1
            heapq.heappush(newest, (at, name))
            if len(newest) > NAMED:
                heapq.heappop(newest)
    return Changed(count, tuple(sorted(newest, reverse=True)))
