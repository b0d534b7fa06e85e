"""When a watcher has last said that it watches: for those who look, and would otherwise take silence for peace."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


class WatcherBeat:
    """A file in the state folder, and its time."""

    def __init__(self, state_dir: Path) -> None:
        self._file = state_dir / "watching"

    def give(self) -> None:
        """What keeps it from being written keeps the journal from it too, and is said there."""
        with suppress(OSError):
            self._file.touch()

    def last(self) -> float | None:
        """Seconds since the epoch; None where none has ever watched, or the caller may not look."""
        try:
            return self._file.stat().st_mtime
        except OSError:
            return None
