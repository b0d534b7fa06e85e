"""How many sessions of one service's key are open at once: each takes a place, until its process has ended.

Else a primary in an attacker's hands could fill the secondary's memory with them. The question who serves needs no
place: a VM that boots must have its answer also from a machine that is ill.

Standard library only: the receiver uses it.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from vcrecovery.errors import ExternalError, lock_errors
from vcrecovery.transfer.sessions import open_made

#: A primary needs two: its sync and a comparison. What a cut network has left behind ends within minutes.
PLACES = 16


def take_place(state_dir: Path, service: str) -> int:
    """The open file that keeps the place; this process alone does, and none of its children.

    Raises ExternalError when all are taken, or the file cannot be used.
    """
    path = state_dir / "standbys" / f"{service}.places"
    with lock_errors(path):
        descriptor = open_made(path, os.O_RDWR)
        for place in range(PLACES):
            if _is_free(descriptor, place):
                return descriptor
    os.close(descriptor)
    raise ExternalError(
        f"{PLACES} sessions of the primary of {service} are open already", "find out there why they do not end"
    )


def _is_free(descriptor: int, place: int) -> bool:
    """It is taken, then."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
    except (BlockingIOError, PermissionError):
        return False
    return True
