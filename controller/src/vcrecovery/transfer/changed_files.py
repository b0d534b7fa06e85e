"""Which files of a standby have changed since a moment: what has arrived there, or was written by what runs in it."""

from __future__ import annotations

import heapq
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vcrecovery.errors import ExternalError

#: So many of the newest are named.
NAMED = 10
#: How the VM and its secondary keep in touch, which no user wrote.
_OURS = "/var/lib/vcrecovery"


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
    for at, name in _files(rootfs):
        if at > moment:
            count += 1
            heapq.heappush(newest, (at, name))
            if len(newest) > NAMED:
                heapq.heappop(newest)
    return Changed(count, tuple(sorted(newest, reverse=True)))


def _files(rootfs: Path) -> Iterator[tuple[float, str]]:
    """Without following a link: the tree is the primary's."""
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(f"{rootfs}{folder or '/'}") as entries:
                for entry in entries:
                    name = f"{folder}/{entry.name}"
                    if name == _OURS:
                        continue
                    found = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(found.st_mode):
                        folders.append(name)
                    else:
                        yield found.st_ctime, name
        except FileNotFoundError:
            continue  # a sync has just removed it
        except OSError as error:
            where = error.filename or rootfs
            raise ExternalError(f"{where} cannot be read: {error.strerror}", "call it as root") from error
