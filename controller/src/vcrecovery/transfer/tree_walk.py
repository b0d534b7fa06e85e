"""Everything that lies in a standby's tree."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from vcrecovery.errors import ExternalError


def everything_in(top: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Each name from the top on, with what it is. Without following a link: the tree is the primary's.

    Raises ExternalError when something cannot be read.
    """
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(f"{top}{folder or '/'}") as entries:
                for entry in entries:
                    name, found = f"{folder}/{entry.name}", entry.stat(follow_symlinks=False)
                    yield name, found
                    if stat.S_ISDIR(found.st_mode):
                        folders.append(name)
        except FileNotFoundError:
            continue  # a sync has just removed it
        except OSError as error:
            where = error.filename or top
            raise ExternalError(f"{where} cannot be read: {error.strerror}", "call it as root") from error


def size_of_tree(top: Path) -> int:
    """The bytes that its files take on the disk, each counted once. Raises ExternalError when it cannot be read."""
    counted: set[tuple[int, int]] = set()
    size = 0
    for _name, found in everything_in(top):
        if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
            if (found.st_dev, found.st_ino) in counted:
                continue
            counted.add((found.st_dev, found.st_ino))
        size += found.st_blocks * 512
    return size
