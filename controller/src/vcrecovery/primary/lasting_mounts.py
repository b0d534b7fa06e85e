"""Which mounts the standby would miss: file systems whose files outlive a mount and lie nowhere else in the tree."""

from __future__ import annotations

import os
from typing import AbstractSet, Iterable, List, Optional, Sequence

from .hidden import is_hidden
from .mounts import Mount, is_under

#: The machine's own mounts: to a unit that systemd confines by mounts, /home is one whether anything is mounted there.
MOUNTS = "/proc/1/mountinfo"
#: What only this boot has; nothing of it is sent.
_NEVER_SENT = ("/proc", "/sys", "/dev", "/run", "/tmp", "/var/lib/vcrecovery")  # noqa: S108
#: In memory, of the kernel's, or made anew from what lies elsewhere in the tree, as containers and snaps are.
# fmt: off
FLEETING = frozenset((
    "aufs", "autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs",
    "efivarfs", "erofs", "fuse.gvfsd-fuse", "fuse.lxcfs", "fuse.portal", "fuse.snapfuse", "fusectl", "hugetlbfs",
    "iso9660", "mqueue", "nfsd", "nsfs", "overlay", "proc", "pstore", "ramfs", "rpc_pipefs", "securityfs",
    "selinuxfs", "squashfs", "sysfs", "tmpfs", "tracefs", "udf",
))
# fmt: on


def lasting_mounts(source: str, hidden: AbstractSet[bytes], mounts: Iterable[Mount]) -> List[Mount]:
    """Those below `source`, in the order given; `hidden`: of what is there and below nothing is sent."""
    every = list(mounts)
    come_and_go = [mount.point for mount in every if _is_map(mount)]
    return [
        mount
        for mount in every
        if mount.kind not in FLEETING
        and _is_sent(mount.point, source, hidden)
        and not any(is_under(mount.point, top) for top in come_and_go)
        and not is_elsewhere(mount, every, source, hidden)
    ]


def occupied(mounts: Iterable[Mount]) -> List[str]:
    """Where something is mounted that is no passing thing, or will be once somebody looks (automount)."""
    return [mount.point for mount in mounts if mount.kind not in FLEETING or mount.kind == "autofs"]


def _is_sent(path: str, source: str, hidden: AbstractSet[bytes]) -> bool:
    inside = "/" + os.path.relpath(path, source)
    return (
        is_under(path, source)
        and inside != "/."
        and not any(is_under(inside, never) for never in _NEVER_SENT)
        and not is_hidden(os.fsencode(inside), hidden)
    )


def _is_map(mount: Mount) -> bool:
    """An automounter's folder, in which each name is mounted when somebody looks, and unmounted later."""
    return mount.kind == "autofs" and "indirect" in mount.options.split(",")


def is_elsewhere(mount: Mount, every: Sequence[Mount], source: str, hidden: AbstractSet[bytes]) -> bool:
    """Whether the same files are also sent from another place: this is a bind mount, or one is made of it there."""
    at = every.index(mount)
    for number, other in enumerate(every):
        # Of two that show the same, and are sent, the first one is not the copy.
        wider = other.root != mount.root or number < at or not _is_sent(mount.point, source, hidden)
        if other.device != mount.device or not wider or not is_under(mount.root, other.root):
            continue
        place = os.path.normpath(os.path.join(other.point, os.path.relpath(mount.root, other.root)))
        seen = _is_sent(place, source, hidden) or place == source.rstrip("/")
        if place != mount.point and seen and _holder(place, every) == other:
            return True
    return False


def _holder(path: str, every: Sequence[Mount]) -> Optional[Mount]:
    """The mount that is seen there: the innermost, of several in one place the last."""
    found: Optional[Mount] = None
    for mount in every:
        if is_under(path, mount.point) and (found is None or len(mount.point) >= len(found.point)):
            found = mount
    return found
