"""When secondaries on demand were on: what they cost, and how often they booted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vcrecovery.store.journal import Journal


@dataclass(frozen=True)
class Powered:
    """Seconds since the epoch. `off_at`: None while it is on. `asked_off_at`: when we asked it to shut down last."""

    on_at: float
    off_at: float | None
    why: str = ""
    asked_off_at: float | None = None

    def asked_off_within(self, seconds: float, now: float) -> bool:
        """Not where the clock was set back since: it says nothing then."""
        return self.asked_off_at is not None and 0 <= now - self.asked_off_at < seconds


class PoweredBook:
    """In the journal. Its methods raise ExternalError when that cannot be used."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def of(self, secondary: str) -> list[Powered]:
        """All that are known, the first one first."""
        rows = self._journal.rows(
            "SELECT on_at, off_at, why, asked_off_at FROM powered WHERE secondary = ? ORDER BY id", secondary
        )
        return [Powered(*row) for row in rows]

    def now(self, secondary: str) -> Powered | None:
        """The time that is not over. It has no `why` where somebody else has started it."""
        return next((one for one in self.of(secondary) if one.off_at is None), None)

    def periods(self, secondary: str) -> list[tuple[float, float | None]]:
        """From when to when it was on each time; None while it is."""
        return [(one.on_at, one.off_at) for one in self.of(secondary)]

    def is_on(self, secondary: str, at: float, why: str) -> None:
        """The first word counts; whoever only sees it has none."""
        with self._journal.transaction() as db:
            db.execute(
                "INSERT INTO powered (secondary, on_at, why) VALUES (?, ?, ?) "
                "ON CONFLICT DO UPDATE SET why = excluded.why WHERE why = ''",
                (secondary, at, why),
            )

    def is_asked_off(self, secondary: str, at: float) -> None:
        """Before it is."""
        with self._journal.transaction() as db:
            db.execute(
                "INSERT INTO powered (secondary, on_at, asked_off_at) VALUES (?, ?, ?) "
                "ON CONFLICT DO UPDATE SET asked_off_at = excluded.asked_off_at",
                (secondary, at, at),
            )

    def has_overlooked_it(self, secondary: str) -> None:
        """Whatever ends it from now on is not our request."""
        with self._journal.transaction() as db:
            db.execute("UPDATE powered SET asked_off_at = NULL WHERE secondary = ? AND off_at IS NULL", (secondary,))

    def is_off(self, secondary: str, at: float) -> None:
        if self.now(secondary) is None:
            return
        with self._journal.transaction() as db:
            db.execute("UPDATE powered SET off_at = ? WHERE secondary = ? AND off_at IS NULL", (at, secondary))
