"""Reads a few files of a standby: in its tree where that is on this machine, else through LXD."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import PurePosixPath

from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.plan.model import Secondary
from vcrecovery.transfer.rootfs import Rootfs


def reader(lxd: LxdServer, service: str, secondary: Secondary, at_most: int) -> Callable[[str], bytes | None]:
    """Gives a file's content, from its tree no more than `at_most` bytes; None where it is none.

    It raises ExternalError when LXD has to be asked and does not answer.
    """
    if (tree := _tree(lxd, service, secondary)) is not None:
        return lambda path: tree.read(path, at_most)
    return lambda path: lxd.file(service, path)


def is_there(lxd: LxdServer, service: str, secondary: Secondary, path: str) -> bool:
    """Whether anything of that name is, also a symbolic link that leads nowhere. Raises as what `reader` gives."""
    if (tree := _tree(lxd, service, secondary)) is not None:
        return tree.is_there(path)
    place = PurePosixPath(path)
    return place.name in lxd.names_in(service, str(place.parent))


def _tree(lxd: LxdServer, service: str, secondary: Secondary) -> Rootfs | None:
    """None where it is on another machine, or not to be read by whoever calls."""
    if not lxd.is_here:
        return None
    rootfs = lxd.rootfs(secondary.storage_pool, service)
    return Rootfs(rootfs, []) if os.access(rootfs, os.R_OK | os.X_OK) else None
