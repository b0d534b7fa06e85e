"""Which old primaries are held paused, in the journal: only what was paused by us is ever resumed by us.

A hold is written down before the VM is paused. A controller that dies between the two leaves one whose `held_at` is
None; the next one pauses the VM, or sees that it is paused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from vcrecovery.core.returning import Quarantine
from vcrecovery.drivers.clock import Clock
from vcrecovery.store.lock import SYSTEM, service_lock

if TYPE_CHECKING:
    from vcrecovery.store.journal import Journal


class QuarantineBook:
    """The journal's part about holds. Its methods raise ExternalError when the journal cannot be used."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def open(self, service: str, hosts: Sequence[str] | None = None) -> Quarantine | None:
        """The newest that was not released; `hosts`: on one of these."""
        found = [quarantine for quarantine in self.all_open(service) if hosts is None or quarantine.host in hosts]
        return found[0] if found else None

    def all_open(self, service: str) -> list[Quarantine]:
        """Newest first."""
        return self._read("service = ? AND released_at IS NULL ORDER BY id DESC", service)

    def history(self, service: str) -> list[Quarantine]:
        """Newest first."""
        return self._read("service = ? ORDER BY id DESC", service)

    def begin(self, service: str, epoch: int, uuid: str, found_at: float, hosts: Sequence[str] = ("",)) -> int:
        """Says that the VM is about to be paused; the number of its hold, which may be an earlier one's.

        `hosts`: where, first by the name that a new entry gets.
        """
        with self._journal.transaction() as db:
            for host in hosts:
                query = "SELECT id FROM hold WHERE service = ? AND host = ? AND released_at IS NULL"
                if (row := db.execute(query, (service, host)).fetchone()) is not None:
                    return int(row[0])
            cursor = db.execute(
                "INSERT INTO hold (service, epoch, uuid, found_at, host) VALUES (?, ?, ?, ?, ?)",
                (service, epoch, uuid, found_at, hosts[0]),
            )
            assert cursor.lastrowid is not None  # noqa: S101  an INSERT has one
            return cursor.lastrowid

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

    def _read(self, where: str, *values: object) -> list[Quarantine]:
        columns = "id, service, epoch, uuid, found_at, held_at, released_at, coalesce(released, ''), host"
        return [Quarantine(*row) for row in self._journal.rows(f"SELECT {columns} FROM hold WHERE {where}", *values)]  # noqa: S608


@contextmanager
def quarantine_lock(state_dir: Path, service: str, *, brief: bool = False, clock: Clock = SYSTEM) -> Iterator[None]:
    """Holds the right to pause or resume the service's old primary.

    Not the service's own lock: that is held for a whole failover, in which an old primary may come back.
    """
    with service_lock(state_dir, service, brief=brief, part="hold", clock=clock):
        yield
