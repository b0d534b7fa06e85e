"""A snapshot of each mount point that the plan names, gone again at the end, whatever happens.

Names are the same in every run of one run folder, so that each run can remove what a killed one has left.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from ..excludes.machine_specific import SNAPSHOT_PREFIX
from . import btrfs, lvm
from .mounts import Mount, is_under, mount_of, read_mounts
from .programs import ProgramError, Run
from .settings import Settings

_INSTEAD = "list mount points on btrfs or LVM in consistency.mounts, or choose consistency kind hook or files"


class Snapshot(NamedTuple):
    """`place` is its path or, with `kind`, a device to mount, of which `root` is shown at `origin`.

    `live` are paths below the origin that the snapshot does not hold: other mounts, and nested subvolumes.
    """

    origin: str
    place: str
    live: Tuple[str, ...]
    kind: str = ""
    options: str = ""
    root: str = "/"
    ran_full: Callable[[], bool] = lambda: False


@contextlib.contextmanager
def snapshots(settings: Settings, run: Run) -> Iterator[List[Snapshot]]:
    """All of them; they are removed at the end. ProgramError names the mount point and the way out."""
    mounts = read_mounts()
    with contextlib.ExitStack() as stack:
        yield [_one(origin, mounts, settings, run, stack) for origin in _origins(settings, mounts)]


def check_not_full(taken: List[Snapshot]) -> None:
    """ProgramError if what was read from one of them may be anything."""
    for snapshot in taken:
        if snapshot.ran_full():
            raise ProgramError(
                f"the snapshot of {snapshot.origin} ran full during the sync: leave more free space in its volume group"
            )


def remove_leftovers(settings: Settings, run: Run) -> None:
    """What a killed run has left; ProgramError if it stays."""
    name = SNAPSHOT_PREFIX + _number(settings)
    for origin in {mount.point for mount in read_mounts().values() if mount.kind == "btrfs"} | set(_real(settings)):
        btrfs.remove(origin, name, run)
    for group, volume in lvm.leftovers(_lvm_prefix(settings)):
        lvm.remove(group, volume, run)


def _one(
    origin: str, mounts: Dict[int, Mount], settings: Settings, run: Run, stack: contextlib.ExitStack
) -> Snapshot:  # fmt: skip
    mount = mount_of(origin, mounts)
    live = [
        other.point
        for other in mounts.values()
        if other.parent == mount.id and is_under(other.point, origin) and _visible(other, mounts)
    ]
    if mount.kind == "btrfs":
        if not btrfs.is_subvolume(origin):
            raise ProgramError(f"{origin} is a folder on btrfs, no subvolume: list {mount.point} in consistency.mounts")
        live += btrfs.nested(origin, mount, run)
        name = SNAPSHOT_PREFIX + _number(settings)
        stack.callback(btrfs.remove, origin, name, run)
        return Snapshot(origin, btrfs.make(origin, name, run), tuple(sorted(live)))
    if mount.point != origin:
        raise ProgramError(f"{origin} is no mount point: list {mount.point}, which holds it, in consistency.mounts")
    volume = lvm.volume_of(mount, run)
    if volume is None:
        raise ProgramError(f"{origin} has no snapshots ({mount.kind} on {mount.source}): {_INSTEAD}")
    prefix = _lvm_prefix(settings)
    lvm.remove(volume.group, prefix + volume.name, run)
    stack.callback(lvm.remove, volume.group, prefix + volume.name, run)
    device = lvm.make(volume, prefix, run)
    # XFS refuses a second file system with the same identifier.
    options = "nouuid" if mount.kind == "xfs" else ""
    group, name = volume.group, prefix + volume.name
    return Snapshot(
        origin, device, tuple(sorted(live)), mount.kind, options, mount.root, lambda: lvm.ran_full(group, name, run)
    )


def _origins(settings: Settings, mounts: Dict[int, Mount]) -> List[str]:
    """The named mount points, outer ones first; each has to hold something that is synced."""
    source = os.path.realpath(settings.source)
    origins = sorted(set(_real(settings)))
    if not origins:
        raise ProgramError(f"consistency.mounts is empty: {_INSTEAD}")
    for origin in origins:
        holds_all = is_under(source, origin) and mount_of(source, mounts) == mount_of(origin, mounts)
        if not (is_under(origin, source) or holds_all):
            raise ProgramError(f"{origin} is no part of what is synced ({source}): remove it from consistency.mounts")
    return origins


def _visible(mount: Mount, mounts: Dict[int, Mount]) -> bool:
    found: Optional[Mount] = None
    with contextlib.suppress(ProgramError):
        found = mount_of(mount.point, mounts)
    return found == mount


def _real(settings: Settings) -> List[str]:
    return [os.path.realpath(path) for path in settings.consistency.mounts]


def _number(settings: Settings) -> str:
    """Each run folder has one run at a time, and its own snapshots."""
    return f"{zlib.crc32(os.fsencode(os.path.realpath(settings.run_dir))):08x}"


def _lvm_prefix(settings: Settings) -> str:
    return f"vcrecovery-{_number(settings)}-"
