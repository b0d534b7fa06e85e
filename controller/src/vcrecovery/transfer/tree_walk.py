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
