"""SQLite's connection, which ends with whoever holds it."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from pathlib import Path

#: Seconds to wait for another program that writes; and between two tries where SQLite itself does not wait.
_PATIENCE, _PAUSE = 10.0, 0.02


class Connection(sqlite3.Connection):
    """Since Python 3.13 one that nobody has closed is complained of; a process that is killed closes none either."""

    def __del__(self) -> None:
        # One that could not be opened has nothing to close.
        with contextlib.suppress(sqlite3.ProgrammingError):
            self.close()


def connect(path: Path) -> Connection:
    """To a file that several programs read and write at once, in autocommit. Raises sqlite3.Error."""
    db = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False, factory=Connection)
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            db.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            # A new file is turned into one with a write-ahead log once, and whoever comes second is not made to wait.
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)
        else:
            return db
