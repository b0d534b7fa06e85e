"""Package runs on the primary: the mark that a hook leaves, and whether one is still going on."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import time
from typing import Callable, Sequence

#: The hooks of dpkg and dnf touch this file; a systemd path unit waits for it.
CHANGED = "/run/vcrecovery-packages-changed"

#: apt and dpkg hold these as long as they work; a whole `apt upgrade` is one run of the first.
LOCKS = ("/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock")


def take_mark(path: str = CHANGED) -> None:
    """Removes the mark, before the packages are read: what changes from here on sets it again."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def wait_until_idle(
    timeout: float,
    locks: Sequence[str] = LOCKS,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Waits while a package run goes on, so that a burst of changes makes one list; False after `timeout` seconds."""
    deadline = now() + timeout
    while any(_is_held(lock) for lock in locks):
        if now() > deadline:
            return False
        sleep(0.5)
    return True


def _is_held(path: str) -> bool:
    """True if another process has a lock on the file (fcntl(2), which dpkg and apt use)."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # struct flock as the C library has it: type, whence, start, len, pid, padded by the platform's rules.
        request = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, request)
        return bool(struct.unpack("hhqqi4x", answer)[0] != fcntl.F_UNLCK)
    finally:
        os.close(descriptor)
