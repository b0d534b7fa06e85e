"""A mark that outlives a boot: a copy back has begun and not ended, so this machine's files are of two states.

It lies beside the sync's configuration, which is never synced: no pass brings another one, or removes this.
"""

from __future__ import annotations

import os
from typing import Callable

from .settings import Settings

NAME = "half-copied"
_TEXT = """\
The standby's files are being copied into this machine, or were, and that has not ended: those here are of two states.
While this file is here, a boot to which no secondary says who serves starts no service. A copy that ends removes it.
Remove it yourself once you have decided that the files are good enough.
"""


def mark_path(settings: Settings) -> str:
    return os.path.join(settings.config_dir, NAME)


def is_marked(settings: Settings) -> bool:
    return os.path.lexists(mark_path(settings))


def mark(settings: Settings) -> None:
    """It is on the disk before anything else that is written from here on; OSError when it cannot be."""
    path = mark_path(settings)
    with open(path, "w", encoding="utf-8") as file:
        file.write(_TEXT)
        file.flush()
        os.fsync(file.fileno())
    _sync_folder(path)


def unmark(settings: Settings) -> None:
    """Everything is here, and on the disk."""
    path = mark_path(settings)
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    _sync_folder(path)


def unmark_who_serves(settings: Settings, say: Callable[[str], None]) -> None:
    """A machine that is told to serve has the files that count. That it cannot be unmarked keeps no service from it."""
    try:
        unmark(settings)
    except OSError as error:
        say(f"{mark_path(settings)} is left, remove it: {error.strerror}")


def _sync_folder(path: str) -> None:
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
