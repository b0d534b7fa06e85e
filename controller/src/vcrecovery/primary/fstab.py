"""Which file systems this machine is to have mounted, as /etc/fstab says."""

from __future__ import annotations

import os
import re
from typing import List

FSTAB = "/etc/fstab"
#: Nothing of what was in memory is missed after a boot.
_NOT_FILES = ("swap", "tmpfs", "ramfs")


def wanted_mounts(source: str, fstab: str = FSTAB, nofail: bool = True) -> List[str]:
    """Mount points below `source`, without what is in memory or mounted on demand; none where there is no such file.

    `nofail`: also those that a boot may leave out.
    """
    try:
        with open(fstab, encoding="utf-8", errors="surrogateescape") as file:
            lines = [line.split() for line in file]
    except FileNotFoundError:
        return []
    top = source.rstrip("/") + "/"
    found = []
    for words in lines:
        if len(words) < 3 or words[0].startswith("#") or words[2] in _NOT_FILES or not words[1].startswith("/"):
            continue
        options = (words[3] if len(words) > 3 else "").split(",")
        if "noauto" in options or ("nofail" in options and not nofail):
            continue
        # Blanks and the like are octal there; the kernel names the place without links.
        point = os.path.realpath(re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), words[1]))
        if point.startswith(top) and point != top:
            found.append(point)
    return found
