"""A standby's heartbeat where LXD hands it out by itself.

To read a file of a container, LXD starts a program of 30 MB: when a whole host has failed, once for each of its
services, on the machine that is about to start them all. A file among an instance's templates it reads itself. So the
receiver leaves a copy there at the beginning of each session: the heartbeat that the last one brought. It is one
heartbeat behind at the most, which makes a standby look older than it is and never younger.

Standard library only: the receiver uses it.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from vcrecovery.errors import ExternalError
from vcrecovery.primary.marker import NAME as HEARTBEAT_NAME
from vcrecovery.transfer.rootfs import Rootfs

HEARTBEAT = f"/var/lib/vcrecovery/{HEARTBEAT_NAME}"
#: The template's name: nothing is made from it.
TEMPLATE = "vcrecovery-heartbeat"
#: Bytes; more than that is no heartbeat.
_AT_MOST = 4096


def publish(rootfs: Path) -> None:
    """Copies the heartbeat in the tree; without one there the copy goes too.

    An obstacle is left where it is: the copy only saves time.
    """
    found = Rootfs(rootfs, []).read(HEARTBEAT, _AT_MOST + 1)
    if found is None or len(found) > _AT_MOST:
        withdraw(rootfs)
        return
    with contextlib.suppress(OSError, ExternalError):
        Rootfs(rootfs.parent, []).file(f"/templates/{TEMPLATE}", found)


def withdraw(rootfs: Path) -> None:
    """Before the tree is filled from elsewhere, of which the heartbeat does not tell."""
    with contextlib.suppress(OSError):
        (rootfs.parent / "templates" / TEMPLATE).unlink()
