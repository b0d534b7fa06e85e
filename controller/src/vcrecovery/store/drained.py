"""Which secondaries are drained: nothing is moved to them until `vcrecovery undrain`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vcrecovery.store.journal import Journal


@dataclass(frozen=True)
class Drained:
    """`since`: seconds since the epoch."""

    since: float
    asked_by: str


class DrainedBook:
    """In the journal. Its methods raise ExternalError when that cannot be used."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def all(self) -> dict[str, Drained]:
        """By secondary."""
        rows = self._journal.rows("SELECT secondary, since, asked_by FROM drained")
        return {row[0]: Drained(*row[1:]) for row in rows}

    def write(self, secondary: str, drained: Drained) -> None:
        """The first one stays."""
        with self._journal.transaction() as db:
            db.execute(
                "INSERT OR IGNORE INTO drained (secondary, since, asked_by) VALUES (?, ?, ?)",
                (secondary, drained.since, drained.asked_by),
            )

    def forget(self, secondary: str) -> None:
        with self._journal.transaction() as db:
            db.execute("DELETE FROM drained WHERE secondary = ?", (secondary,))
