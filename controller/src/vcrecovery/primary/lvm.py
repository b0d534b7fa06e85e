"""Snapshots of LVM's logical volumes, thin ones or others.

To make one, the device mapper freezes the file system: everything written before is in it, nothing that came later.
The snapshot can be written to, so that a file system that asks for it has its journal replayed, there and not in the
original.
"""

from __future__ import annotations

import json
import os
import re
import time
from typing import List, NamedTuple, Optional, Tuple

from .mounts import Mount
from .programs import ProgramError, Run

_SECONDS = 120.0
#: Of the original's size, for what changes there while the snapshot is read.
_SHARE = 0.2
_TRIES = 10
_MAPPER = "/dev/mapper"


class Volume(NamedTuple):
    """A logical volume, and the room for a snapshot of it."""

    group: str
    name: str
    size: int
    thin: bool
    free: int
    extent: int


def volume_of(mount: Mount, run: Run) -> Optional[Volume]:
    """The logical volume that is mounted there, or None if it is something else."""
    try:
        kind, name = (_read(f"/sys/dev/block/{mount.device}/dm/{what}") for what in ("uuid", "name"))
    except OSError:
        return None
    if not kind.startswith("LVM-"):
        return None
    fields = "vg_name,lv_name,lv_size,pool_lv,vg_free,vg_extent_size"
    options = ["--reportformat", "json", "--units", "b", "--nosuffix", "-o", fields]
    found = json.loads(run(["lvs", *options, os.path.join(_MAPPER, name)], _SECONDS))["report"][0]["lv"][0]
    return Volume(
        found["vg_name"], found["lv_name"], int(found["lv_size"]), bool(found["pool_lv"]), int(found["vg_free"]),
        int(found["vg_extent_size"]),
    )  # fmt: skip


def make(volume: Volume, prefix: str, run: Run) -> str:
    """The device of the snapshot."""
    command = ["lvcreate", "--yes", "--snapshot", "--name", prefix + volume.name]
    if volume.thin:
        # Thin snapshots are not activated unless one says so.
        command += ["--setactivationskip", "n"]
    else:
        extents = min(int(volume.size * _SHARE), volume.free) // volume.extent
        if extents < 1:
            raise ProgramError(
                f"no snapshot of {volume.group}/{volume.name}: volume group {volume.group} has no free space; "
                f"give it some (vgextend {volume.group} DEVICE), or choose consistency kind hook or files"
            )
        command += ["--extents", str(extents)]
    try:
        run([*command, f"{volume.group}/{volume.name}"], _SECONDS)
    except ProgramError as error:
        raise ProgramError(
            f"no snapshot of {volume.group}/{volume.name} ({error}): see `vgs` and `lvs`, or choose consistency kind "
            "hook or files", error.status,
        ) from None  # fmt: skip
    return os.path.join(_MAPPER, "-".join(word.replace("-", "--") for word in (volume.group, prefix + volume.name)))


def ran_full(group: str, name: str, run: Run) -> bool:
    """Whether more has changed in the original than the snapshot could keep; it reads as errors then."""
    attributes = run(["lvs", "--noheadings", "-o", "lv_attr", f"{group}/{name}"], _SECONDS).strip()
    return attributes[4:5] in ("I", "S")


def remove(group: str, name: str, run: Run) -> None:
    """No error if there is none."""
    if not run(["lvs", "--noheadings", "-o", "lv_name", "--select", f"lv_name={name}", group], _SECONDS).strip():
        return
    for left in range(_TRIES, -1, -1):
        try:
            run(["lvremove", "--force", "--yes", f"{group}/{name}"], _SECONDS)
        except ProgramError:
            # A killed run's rsync may still have it mounted.
            if not left:
                raise
            time.sleep(1)
        else:
            return


def leftovers(prefix: str) -> List[Tuple[str, str]]:
    """Group and name of the snapshots with that prefix that are active."""
    found = []
    for entry in sorted(os.listdir(_MAPPER)) if os.path.isdir(_MAPPER) else []:
        # Hyphens in names are doubled there, and a third word means a part of a volume.
        words = [word.replace("--", "-") for word in re.split(r"(?<!-)-(?!-)", entry)]
        if len(words) == 2 and words[1].startswith(prefix):
            found.append((words[0], words[1]))
    return found


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read().strip()
