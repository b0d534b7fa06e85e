"""What a copy of a standby takes in its pool, and whether there is room for it."""

from __future__ import annotations

import stat
from pathlib import Path

from vcrecovery.core.drill import room_problem
from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.errors import ExternalError
from vcrecovery.transfer.tree_walk import everything_in

#: A pool with another driver keeps a copy's files where the original's are, until one of the two changes them.
_COPIES_FILES = "dir"


def keeping_problem(lxd: LxdServer, pool: str, name: str) -> str:
    """Why a failback cannot keep what the standby was; empty when it can."""
    what = "a copy of the standby"
    try:
        if not lxd.is_here and lxd.pool_driver(pool) == _COPIES_FILES:
            free, total = lxd.pool_space(pool)
            return room_problem(f"{what}, whose size is not seen from here,", pool, total - free, free)
        return room_problem(what, pool, copied_bytes(lxd, pool, name), lxd.pool_free(pool))
    except ExternalError as error:
        return str(error)


def no_room_for_a_copy(source: LxdServer, whose_pool: str, name: str, lxd: LxdServer, pool: str) -> str:
    """Why a container does not fit on another server; empty when it does, or nobody here can say how large it is."""
    try:
        if not source.is_here or lxd.pool_driver(pool) is None:
            return ""
        size = size_of_tree(source.rootfs(whose_pool, name))
        return room_problem("its copy", f"{pool} of {lxd.name}", size, lxd.pool_free(pool))
    except ExternalError as error:
        return str(error)


def copied_bytes(lxd: LxdServer, pool: str, name: str) -> int:
    """What a copy of the container takes. Raises ExternalError."""
    return size_of_tree(lxd.rootfs(pool, name)) if lxd.pool_driver(pool) == _COPIES_FILES else 0


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
