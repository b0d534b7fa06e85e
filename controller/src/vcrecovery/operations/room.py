"""What a copy of a standby takes in its pool, and whether there is room for it."""

from __future__ import annotations

from vcrecovery.core.drill import room_problem
from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.errors import ExternalError
from vcrecovery.transfer.tree_walk import size_of_tree

#: A pool with another driver keeps a copy's files where the original's are, until one of the two changes them.
_COPIES_FILES = "dir"
#: Seconds for a container to say how large it is.
_LOOKS_WITHIN = 20.0


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
    """Why a container does not fit on another server; empty when it does, or nobody can say how large it is."""
    try:
        if lxd.pool_driver(pool) is None:
            return ""
        size = size_of_tree(source.rootfs(whose_pool, name)) if source.is_here else _size_seen_inside(source, name)
        if size is None:
            return ""
        return room_problem("its copy", f"{pool} of {lxd.name}", size, lxd.pool_free(pool))
    except ExternalError as error:
        return str(error)


def _size_seen_inside(lxd: LxdServer, name: str) -> int | None:
    """As its own `du` says; None where it does not run, has none, or takes too long over it."""
    try:
        _, said = lxd.ask(name, ["/bin/sh", "-c", "du -skx / 2>/dev/null"], _LOOKS_WITHIN)
        return int(said.split()[0]) << 10
    except (ExternalError, IndexError, ValueError):
        return None


def copied_bytes(lxd: LxdServer, pool: str, name: str) -> int:
    """What a copy of the container takes. Raises ExternalError."""
    return size_of_tree(lxd.rootfs(pool, name)) if lxd.pool_driver(pool) == _COPIES_FILES else 0
