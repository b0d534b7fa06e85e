"""Which file systems were mounted in the tree when it was last sent: one that is not is an empty folder to rsync.

The note outlives a boot, and lies beside the sync's configuration: that is never synced, so neither the standby nor a
copy back of its files has anything to do with it. It has one mount point a line, for people to remove.
"""

from __future__ import annotations

import os
import re
from typing import AbstractSet, Dict, List, Set

from . import lasting_mounts as lasting
from .fstab import FSTAB, wanted_mounts
from .hidden import is_hidden
from .lasting_mounts import lasting_mounts, occupied
from .mounts import plain, read_mounts
from .programs import ProgramError
from .settings import Settings

NAME = "sent-mounts"
_TEXT = """\
# File systems that were mounted when the standby was sent the tree. While one of them is not, nothing is deleted there.
# Remove the line of one that is gone for good.
"""


def note_path(settings: Settings) -> str:
    return os.path.join(settings.config_dir, NAME)


def note_mounts(settings: Settings, hidden: AbstractSet[bytes]) -> None:
    """Replaces the note at once, if it has changed."""
    found = lasting_mounts(settings.source, hidden, read_mounts(lasting.MOUNTS).values())
    path, points = note_path(settings), {mount.point for mount in found}
    if points == noted_mounts(settings) and os.path.exists(path):
        return
    with open(path + ".new", "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(_TEXT + "".join(_escaped(point) + "\n" for point in sorted(points)))
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


def noted_mounts(settings: Settings) -> Set[str]:
    """None before the first comparison."""
    try:
        with open(note_path(settings), encoding="utf-8", errors="surrogateescape") as file:
            return {plain(line.rstrip("\n")) for line in file if line.startswith("/")}
    except FileNotFoundError:
        return set()


def missing_mounts(
    settings: Settings, hidden: AbstractSet[bytes], fstab: str = FSTAB, nofail: bool = False
) -> Dict[str, List[str]]:
    """What is to be mounted below the tree and is not, with the files that say so; not what is `hidden`."""
    mounts = read_mounts(lasting.MOUNTS).values()
    gone: Dict[str, List[str]] = {}
    for place, points, present in (
        (note_path(settings), noted_mounts(settings), set(occupied(mounts))),
        (fstab, set(wanted_mounts(settings.source, fstab, nofail)), {mount.point for mount in mounts}),
    ):
        for point in sorted(points - present):
            if not is_hidden(os.fsencode("/" + os.path.relpath(point, settings.source)), hidden):
                gone.setdefault(point, []).append(place)
    return gone


def check_mounts(settings: Settings, hidden: AbstractSet[bytes], fstab: str = FSTAB, nofail: bool = False) -> None:
    """ProgramError names the first that is missing, and the way out."""
    gone = missing_mounts(settings, hidden, fstab, nofail)
    if gone:
        point = sorted(gone)[0]
        mount = f"`mount {point}`" if fstab in gone[point] else "mount it"
        raise ProgramError(
            f"{point} is not mounted: {mount}, or, if it is gone for good, remove its line from"
            f" {' and '.join(gone[point])}"
        )


def _escaped(point: str) -> str:
    return re.sub(r"[\\\n]", lambda match: f"\\{ord(match.group()):03o}", point)
