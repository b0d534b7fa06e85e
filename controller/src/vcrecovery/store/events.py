"""Which of Zabbix's events were answered, in the journal: a repetition does nothing, and nothing is left half-way.

An event is answered in two moments: what to answer is written down, then Zabbix is told. A controller that dies between
the two tells it at its next start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vcrecovery.store.journal import Journal

#: Seconds after which an event that was answered is forgotten. Zabbix repeats one for as long as its problem is open.
FORGOTTEN_AFTER = 365 * 86400.0


@dataclass(frozen=True)
class TakenEvent:
    """An event that a controller has begun with.

    `answer`: what Zabbix is to be told; None while it is not known. `final`: nothing will change it any more.
    `handled`: the problem is done with, or was none.
    """

    id: str
    taken_at: float
    answer: str | None = None
    final: bool = False
    told_at: float | None = None
    handled: bool = False

    @property
    def finished(self) -> bool:
        return self.final and self.told_at is not None


class EventBook:
    """The journal's part about events."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def take(self, event: str, now: float) -> TakenEvent:
        """What is known of the event, which is remembered from now on."""
        if not (found := self._read("id = ?", event)):
            with self._journal.transaction() as db:
                db.execute("INSERT OR IGNORE INTO event (id, taken_at) VALUES (?, ?)", (event, now))
            found = self._read("id = ?", event)
        return found[0]

    def answer(self, event: str, text: str, *, final: bool, handled: bool = False) -> None:
        """What is to be told. The same text again is not told again."""
        with self._journal.transaction() as db:
            db.execute(
                "UPDATE event SET told_at = CASE WHEN answer IS ? THEN told_at END, answer = ?, final = ?, handled = ?"
                " WHERE id = ?",
                (text, text, final, handled, event),
            )

    def told(self, event: str, at: float) -> None:
        with self._journal.transaction() as db:
            db.execute("UPDATE event SET told_at = ? WHERE id = ?", (at, event))

    def forget(self, event: str) -> None:
        """There is no such event."""
        with self._journal.transaction() as db:
            db.execute("DELETE FROM event WHERE id = ?", (event,))

    def unfinished(self, now: float) -> list[TakenEvent]:
        """Those that an earlier controller began with, and did not bring to their end."""
        with self._journal.transaction() as db:
            db.execute("DELETE FROM event WHERE told_at < ?", (now - FORGOTTEN_AFTER,))
        return self._read("told_at IS NULL ORDER BY taken_at")

    def _read(self, where: str, *values: object) -> list[TakenEvent]:
        query = f"SELECT id, taken_at, answer, final, told_at, handled FROM event WHERE {where}"  # noqa: S608
        rows = self._journal.rows(query, *values)
        return [TakenEvent(name, at, text, bool(final), told, bool(done)) for name, at, text, final, told, done in rows]
