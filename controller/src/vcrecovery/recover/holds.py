"""Which old primaries are held paused, in the journal: only what was paused by us is ever resumed by us.

A hold is written down before the VM is paused. A controller that dies between the two leaves one whose `held_at` is
None; the next one pauses the VM, or sees that it is paused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vcrecovery.recover.lock import service_lock

if TYPE_CHECKING:
    from vcrecovery.recover.journal import Journal
    from vcrecovery.recover.world import World

HOLD_SCHEMA = """
CREATE TABLE IF NOT EXISTS hold (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    service TEXT NOT NULL, epoch INTEGER NOT NULL, uuid TEXT NOT NULL,
    found_at REAL NOT NULL, held_at REAL, released_at REAL, released TEXT
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS one_open_hold ON hold (service) WHERE released_at IS NULL;
"""


@dataclass(frozen=True)
class Hold:
    """An old primary that was found running at `found_at` and has been paused since `held_at`.

    `released`: why it is not held any more; while `released_at` is None, it is, or is about to be.
    """

    id: int
    service: str
    epoch: int
    uuid: str
    found_at: float
    held_at: float | None = None
    released_at: float | None = None
    released: str = ""


class HoldBook:
    """The journal's part about holds. Its methods raise OutsideError when the journal cannot be used."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def open(self, service: str) -> Hold | None:
        """The one that was not released."""
        found = self._read("service = ? AND released_at IS NULL", service)
        return found[0] if found else None

    def history(self, service: str) -> list[Hold]:
        """Newest first."""
        return self._read("service = ? ORDER BY id DESC", service)

    def begin(self, service: str, epoch: int, uuid: str, found_at: float) -> int:
        """Says that the VM is about to be paused; the number of its hold, which may be an earlier one's."""
        with self._journal.transaction() as db:
            db.execute(
                "INSERT OR IGNORE INTO hold (service, epoch, uuid, found_at) VALUES (?, ?, ?, ?)",
                (service, epoch, uuid, found_at),
            )
            query = "SELECT id FROM hold WHERE service = ? AND released_at IS NULL"
            number: int = db.execute(query, (service,)).fetchone()[0]
            return number

    def held(self, number: int, at: float) -> None:
        """The VM is paused."""
        with self._journal.transaction() as db:
            db.execute("UPDATE hold SET held_at = coalesce(held_at, ?) WHERE id = ?", (at, number))

    def release(self, number: int, at: float, why: str) -> None:
        with self._journal.transaction() as db:
            db.execute(
                "UPDATE hold SET released_at = ?, released = ? WHERE id = ? AND released_at IS NULL", (at, why, number)
            )

    def in_question(self) -> set[str]:
        """The services whose primary may have to be held or let go: all but those that nothing has happened to."""
        rows = self._journal.rows(
            "SELECT name FROM service WHERE side = 'standby' "
            "UNION SELECT service FROM episode WHERE closed_at IS NULL "
            "UNION SELECT service FROM hold WHERE released_at IS NULL"
        )
        return {name for (name,) in rows}

    def _read(self, where: str, *values: object) -> list[Hold]:
        columns = "id, service, epoch, uuid, found_at, held_at, released_at, coalesce(released, '')"
        return [Hold(*row) for row in self._journal.rows(f"SELECT {columns} FROM hold WHERE {where}", *values)]  # noqa: S608


@contextmanager
def hold_lock(state_dir: Path, service: str, *, brief: bool = False) -> Iterator[None]:
    """Holds the right to pause or resume the service's old primary.

    Not the service's own lock: that is held for a whole failover, in which an old primary may come back.
    """
    with service_lock(state_dir, service, brief=brief, part="hold"):
        yield


def serve_from_primary(world: World, service: str) -> bool:
    """Lets the primary serve again; whether it was held and has been resumed.

    Raises OutsideError when its hypervisor does not answer or will not: then nothing has changed.
    """
    book = HoldBook(world.journal)
    with hold_lock(world.plan.state_dir, service):
        hold, resumed = book.open(service), False
        if hold is not None:
            host = world.plan.services[service].primary.hypervisor
            resumed = world.hosts[host].resume(hold.uuid)
            book.release(hold.id, world.clock.now(), "the primary serves again")
        # If we died before this, the watcher would hold it again, and the operator would call again.
        world.journal.serve_from_primary(service, world.clock.now())
        return resumed
