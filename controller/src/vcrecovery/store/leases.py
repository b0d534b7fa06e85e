"""The secondaries that were made for a while: each step is on the disk before it acts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vcrecovery.core.lease import Lease, LeaseState

if TYPE_CHECKING:
    from vcrecovery.store.journal import Journal

_COLUMNS = (
    "number, token, state, why, network, asked_at, made_at, joined_at, releasing_at, gone_at, machine, address, port, "
    "failure, trouble, tries, not_before, addresses, options"
)


class LeaseBook:
    """In the journal. Its methods raise ExternalError when that cannot be used."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def open(self) -> list[Lease]:
        """Those that may exist, the oldest first."""
        return self._read("WHERE state != 'gone' ORDER BY number")

    def of(self, name: str) -> Lease | None:
        """The open one of that secondary; None for any other secondary."""
        return next((lease for lease in self.open() if lease.name == name), None)

    def newest(self, count: int) -> list[Lease]:
        """The newest first, also those that are gone."""
        return self._read(f"ORDER BY number DESC LIMIT {count:d}")

    def ask(
        self,
        token: str,
        why: str,
        network: str,
        addresses: Mapping[str, str],
        now: float,
        at_most: int,
        options: Mapping[str, Any] | None = None,
    ) -> Lease | None:
        """A new one; None when there are as many already, or one has that network: another process was quicker."""
        with self._journal.transaction() as db:
            there = db.execute("SELECT network FROM lease WHERE state != 'gone'").fetchall()
            if len(there) >= at_most or (network,) in there:
                return None
            number = db.execute(
                "INSERT INTO lease (token, state, why, network, asked_at, addresses, options) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (token, LeaseState.ASKED.value, why, network, now, json.dumps(dict(addresses)), json.dumps(options)),
            ).lastrowid
        return self._read("WHERE number = ?", number)[0]

    def give_back(self, lease: Lease, now: float) -> bool:
        """Nothing goes there any more. False where it is not drained, or not any more: something may be on its way."""
        with self._journal.transaction() as db:
            changed = db.execute(
                "UPDATE lease SET state = 'releasing', trouble = '', tries = 0, not_before = 0.0, releasing_at = ? "
                "WHERE number = ? AND state = 'joined' AND EXISTS (SELECT 1 FROM drained WHERE secondary = ?)",
                (now, lease.number, lease.name),
            ).rowcount
        return changed == 1

    def undrain(self, lease: Lease) -> bool:
        """Standbys may go there again. False where it is being given back: it may be gone at any moment."""
        with self._journal.transaction() as db:
            row = db.execute("SELECT state FROM lease WHERE number = ?", (lease.number,)).fetchone()
            if row == (LeaseState.RELEASING.value,):
                return False
            db.execute("DELETE FROM drained WHERE secondary = ?", (lease.name,))
        return True

    def change(self, lease: Lease, state: LeaseState | None = None, **values: object) -> Lease:
        """In a new `state` the tries begin anew."""
        if state is not None:
            values = {"state": state.value, "trouble": "", "tries": 0, "not_before": 0.0, **values}
        columns = ", ".join(f"{column} = ?" for column in values)
        with self._journal.transaction() as db:
            db.execute(f"UPDATE lease SET {columns} WHERE number = ?", (*values.values(), lease.number))  # noqa: S608
        return self._read("WHERE number = ?", lease.number)[0]

    def _read(self, which: str, *values: object) -> list[Lease]:
        return [_lease(row) for row in self._journal.rows(f"SELECT {_COLUMNS} FROM lease {which}", *values)]  # noqa: S608


def _lease(row: tuple[Any, ...]) -> Lease:
    values = dict(zip(_COLUMNS.split(", "), row, strict=True))
    read = {column: json.loads(values[column]) for column in ("addresses", "options")}
    return Lease(**{**values, "state": LeaseState(values["state"]), **read})
