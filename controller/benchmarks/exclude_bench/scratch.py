"""A folder that is gone at the end, however the benchmark ends."""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

from vcrecovery_lab.progress import stderr_progress

#: What the trees need: bytes and inodes. A tmpfs counts each hard link as an inode.
_ROOM_BYTES = 6 * 2**30
_ROOM_INODES = 2_000_000
_MEMORY = Path("/dev/shm")  # noqa: S108


def default_parent() -> Path | None:
    """In memory if there is room, since a disk takes minutes to remove the trees; None: among temporary files."""
    try:
        room = os.statvfs(_MEMORY)
        available = re.search(r"^MemAvailable: *(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    except OSError:
        return None
    # As much again stays free for what else the machine does.
    memory = int(available.group(1)) * 1024 if available else 0
    roomy = min(room.f_bavail * room.f_frsize, memory // 2) >= _ROOM_BYTES and room.f_favail >= _ROOM_INODES
    return _MEMORY if roomy and os.access(_MEMORY, os.W_OK) else None


@contextmanager
def scratch_folder(parent: Path | None) -> Iterator[Path]:
    """A new folder in `parent` (None: where temporary files go); SIGTERM ends the benchmark as Ctrl-C does."""
    previous = signal.signal(signal.SIGTERM, _interrupt)
    folder = Path(tempfile.mkdtemp(prefix="vcrecovery-bench-", dir=parent))
    try:
        yield folder
    finally:
        with stderr_progress(f"removing {folder}"):
            _remove(folder)
        signal.signal(signal.SIGTERM, previous)


def _remove(folder: Path) -> None:
    """Removes it, trying again for 5 s: a child of a program that was killed may still finish a last write."""
    deadline = time.monotonic() + 5
    while True:
        try:
            shutil.rmtree(folder)
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
