"""SQLite's connection, which ends with whoever holds it."""

from __future__ import annotations

import contextlib
import sqlite3


class Connection(sqlite3.Connection):
    """Since Python 3.13 one that nobody has closed is complained of; a process that is killed closes none either."""

    def __del__(self) -> None:
        # One that could not be opened has nothing to close.
        with contextlib.suppress(sqlite3.ProgrammingError):
            self.close()
