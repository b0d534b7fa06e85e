"""Snapshots of btrfs subvolumes: read-only, and hidden in the subvolume itself."""

from __future__ import annotations

import os
from typing import List

from .mounts import Mount
from .programs import ProgramError, Run

#: The inode number of every subvolume's top folder.
_TOP = 256
_SECONDS = 120.0


def is_subvolume(path: str) -> bool:
    """Of a path on btrfs."""
    return os.stat(path).st_ino == _TOP


def make(origin: str, name: str, run: Run) -> str:
    """The path of the snapshot, which does not hold itself."""
    path = os.path.join(origin, name)
    try:
        run(["btrfs", "subvolume", "snapshot", "-r", origin, path], _SECONDS)
    except ProgramError as error:
        raise ProgramError(
            f"no snapshot of {origin} ({error}): make room there, or choose consistency kind hook or files",
            error.status,
        ) from None
    return path


def remove(origin: str, name: str, run: Run) -> None:
    """No error if there is none."""
    path = os.path.join(origin, name)
    if os.path.isdir(path):
        run(["btrfs", "subvolume", "delete", path], _SECONDS)


def nested(origin: str, mount: Mount, run: Run) -> List[str]:
    """The subvolumes right below, which a snapshot shows as empty folders."""
    inside = os.path.normpath(os.path.join(mount.root, os.path.relpath(origin, mount.point))).strip("/")
    found = []
    for line in run(["btrfs", "subvolume", "list", "-o", origin], _SECONDS).splitlines():
        path = line.partition(" path ")[2]
        found.append(os.path.join(origin, os.path.relpath("/" + path, "/" + inside)))
    return found
