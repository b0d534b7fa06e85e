"""What a container sees of memory, CPUs and load: files of lxcfs, mounted over /proc and /sys.

Debian's hook for that is a shell script that starts some twenty programs at each start of a container, on recovery's
critical path. LXC mounts the same files by itself when its configuration says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

#: Where lxcfs of a distribution's package is mounted; the snap's LXD does without the hook.
LXCFS = Path("/var/lib/lxcfs")
PROC, CPUS = "proc", "sys/devices/system/cpu"


def files(lxcfs: Path = LXCFS) -> list[str]:
    """What the hook would mount, relative to lxcfs; none where there is no lxcfs, or one that has crashed."""
    try:
        found = [file for folder in (PROC, CPUS) for file in sorted((lxcfs / folder).glob("*"))]
    except OSError:
        return []
    return chosen([str(file.relative_to(lxcfs)) for file in found])


def chosen(found: Sequence[str]) -> list[str]:
    """Of what `PROC` and `CPUS` hold in lxcfs, what is mounted: all CPUs at once, where that is whole."""
    if f"{CPUS}/uevent" in found:
        return [*(file for file in found if not file.startswith(CPUS)), CPUS]
    return list(found)


def lines(found: Sequence[str], lxcfs: Path = LXCFS) -> list[str]:
    """Lines of `raw.lxc` that stand for the hook; none for no files, so that the hook decides."""
    if not found:
        return []
    entries = (f"lxc.mount.entry = {lxcfs / file} {file} none bind,optional 0 0" for file in found)
    return ["lxc.hook.mount =", *entries]
