"""Why containers that are to serve do not run, in the journal: for `status`, and for the next watcher."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vcrecovery.core.standby_end import StandbyEnd

if TYPE_CHECKING:
    from vcrecovery.store.journal import Journal


class StandbyEnds:
    """The newest of each service. Its methods raise ExternalError when the journal cannot be used."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def all(self) -> dict[str, StandbyEnd]:
        """By service, also of an epoch that is over."""
        rows = self._journal.rows("SELECT service, epoch, at, asked_by, given_up, started_at FROM standby_end")
        return {row[0]: StandbyEnd(*row[1:]) for row in rows}

    def write(self, service: str, end: StandbyEnd) -> None:
        with self._journal.transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO standby_end (service, epoch, at, asked_by, given_up, started_at)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (service, end.epoch, end.at, end.asked_by, end.given_up, end.started_at),
            )

    def forget(self, service: str) -> None:
        """It runs again."""
        with self._journal.transaction() as db:
            db.execute("DELETE FROM standby_end WHERE service = ?", (service,))
