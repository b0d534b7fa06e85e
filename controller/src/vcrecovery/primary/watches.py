"""inotify's limit: lsyncd needs one watch for each folder, and stops at the first that it does not get."""

from __future__ import annotations

import os
from typing import FrozenSet, List

LIMIT = "/proc/sys/fs/inotify/max_user_watches"
#: Room for folders to come, and for other programs of the same user. Less than half of it left: more is made.
_SPARE_FACTOR, _SPARE = 1.5, 8192
_ENOUGH_FACTOR, _ENOUGH = 1.25, 4096


class WatchError(Exception):
    """The kernel does not allow as many watches as the tree needs."""


def ensure_watches(source: str, list_file: str, limit: str = LIMIT) -> str:
    """Raises the limit if the tree needs more; one sentence on what was found. Never lowers it."""
    folders = count_folders(source, _plain_paths(list_file))
    wanted = int(folders * _SPARE_FACTOR) + _SPARE
    present = _read(limit)
    # A tree that has grown by a folder since is no reason to change anything.
    if present >= int(folders * _ENOUGH_FACTOR) + _ENOUGH:
        return f"{folders} folders to watch; {limit} allows {present}"
    try:
        with open(limit, "w", encoding="ascii") as file:
            file.write(str(wanted))
        now = _read(limit)
    except OSError as error:
        now, reason = present, error.strerror
    else:
        reason = "the kernel keeps it lower"
    if now < folders:
        raise WatchError(
            f"{source} has {folders} folders to watch, but {limit} is {now} and cannot be raised to {wanted} "
            f"({reason}): raise it on the host, leave folders out (sync: exclude), or choose engine: periodic"
        )
    return f"{folders} folders to watch; {limit} is {now}" + ("" if now < wanted else f", raised from {present}")


def count_folders(source: str, left_out: FrozenSet[bytes]) -> int:
    """Folders of the tree that are watched: symlinks are not followed, what is left out is not entered."""
    top = os.fsencode(source).rstrip(b"/")
    pending: List[bytes] = [b""]
    count = 0
    while pending:
        folder = pending.pop()
        count += 1
        try:
            with os.scandir(top + folder or b"/") as entries:
                for entry in entries:
                    path = folder + b"/" + entry.name
                    if entry.is_dir(follow_symlinks=False) and path not in left_out:
                        pending.append(path)
        except OSError:
            # Gone meanwhile, or not readable: lsyncd does not watch it either.
            continue
    return count


def _plain_paths(list_file: str) -> FrozenSet[bytes]:
    """The list without its patterns: these leave out single files, mostly, and a watch too many does no harm."""
    with open(list_file, "rb") as file:
        return frozenset(line for line in file.read().split(b"\n") if line and b"*" not in line and b"?" not in line)


def _read(path: str) -> int:
    with open(path, encoding="ascii") as file:
        return int(file.read())
