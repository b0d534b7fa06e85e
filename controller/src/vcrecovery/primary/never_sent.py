"""Which file systems of this machine's its standby has nothing of, only because of where they are mounted.

Nothing below /mnt and /media is sent: as a rule media come and go there. But clouds mount disks there whose data a
service needs, and whoever has not left them out by the plan may not know.
"""

from __future__ import annotations

import os
from typing import AbstractSet, List

from . import lasting_mounts as lasting
from .fstab import FSTAB, wanted_mounts
from .hidden import is_hidden
from .lasting_mounts import FLEETING, is_elsewhere
from .mounts import is_under, read_mounts
from .settings import Settings

_PLACES = ("/mnt", "/media")
#: They are for people to read, one after the other.
_NAMES, _LENGTH = 5, 200


def never_sent(settings: Settings, hidden: AbstractSet[bytes], fstab: str = FSTAB) -> List[str]:
    """Mount points, from the tree's top on, of what each boot mounts: neither sent nor left out on purpose."""
    wanted = set(wanted_mounts(settings.source, fstab))
    left_out = [os.path.realpath("/" + path.strip("/")) for path in settings.selection.paths]
    every, found = list(read_mounts(lasting.MOUNTS).values()), set()
    for mount in every:
        inside = "/" + os.path.relpath(mount.point, settings.source)
        if (
            mount.point in wanted
            and mount.kind not in FLEETING
            and any(is_under(inside, place) for place in _PLACES)
            and is_hidden(os.fsencode(inside), hidden)
            and not any(is_under(inside, path) for path in left_out)
            and not is_elsewhere(mount, every, settings.source, hidden)
        ):
            found.add(inside[:_LENGTH])
    return sorted(found)[:_NAMES]
