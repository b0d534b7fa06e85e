"""When services did not answer, in the journal: what availability is told from."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vcrecovery.core.health import SAME_OUTAGE, Outage

if TYPE_CHECKING:
    from vcrecovery.store.journal import Journal

#: Seconds for which an outage is remembered.
KEPT = 3 * 365 * 86400.0
#: Seconds after which it is known whether a service was down: to have answered steadily may take a minute, and one that
#: ceases to answer within another has never been well.
SETTLED_AFTER = 2 * SAME_OUTAGE


@dataclass(frozen=True)
class Total:
    """Several outages of one service together. `goes_on`: the last of them is not over."""

    count: int
    seconds: float
    goes_on: bool = False


class OutageBook:
    """The journal's part about outages. Each of its methods raises ExternalError when the journal cannot be used.

    Two controllers may write the same one: the first begins it, the first ends it.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def write(
        self,
        begun: Mapping[str, tuple[float, str]],
        ended: Mapping[str, float],
        failovers: Mapping[str, tuple[float, float, str]] | None = None,
    ) -> None:
        """Services that have ceased to answer, each with when and why; and those that answer again, with since when.

        One that ceases again within a minute has never been well: its last outage goes on. `failovers`: begin, end and
        cause of the outages that they have ended, which may not have been seen; written once, though told again.
        """
        with self._journal.transaction() as db:
            for service, (began_at, ended_at, why) in (failovers or {}).items():
                if not _is_known(db, service, "ended_at IS NULL OR ? BETWEEN began_at AND ended_at", began_at):
                    _add(db, service, began_at, max(began_at, ended_at), why)
            for service, (at, why) in begun.items():
                if not _is_known(db, service, "ended_at IS NULL"):
                    _add(db, service, at, None, why)
            for service, at in ended.items():
                # No outage ends before it began: a clock was set back.
                db.execute(
                    "UPDATE outage SET ended_at = max(began_at, ?) WHERE service = ? AND ended_at IS NULL",
                    (at, service),
                )

    def going_on(self) -> dict[str, Outage]:
        """By service."""
        return {outage.service: outage for outage in self._read("ended_at IS NULL")}

    def history(self, service: str | None = None, limit: int = 20, since: float = 0.0) -> list[Outage]:
        """Those that were not over by then, newest first."""
        where, values = "coalesce(ended_at, ?) >= ?", (since, since)
        if service is not None:
            return self._read(f"service = ? AND {where} ORDER BY id DESC LIMIT ?", service, *values, limit)
        return self._read(f"{where} ORDER BY id DESC LIMIT ?", *values, limit)

    def of_period(self, since: float, until: float) -> dict[str, Total]:
        """By service, for those that had one; seconds of the period only. However many there were: it is not read
        one by one."""
        rows = self._journal.rows(
            "SELECT service, count(*), "
            "sum(max(0.0, min(coalesce(ended_at, until), until) - max(began_at, since))), max(ended_at IS NULL) "
            "FROM outage, (SELECT ? AS since, ? AS until) WHERE coalesce(ended_at, since) >= since GROUP BY service",
            since,
            until,
        )
        return {service: Total(count, seconds, bool(goes_on)) for service, count, seconds, goes_on in rows}

    def totals(self, now: float) -> dict[str, Total]:
        """All of each service, also one that goes on; their seconds up to a while ago, after which nothing takes any
        back: counters that go down would be taken for new ones."""
        return self.of_period(0.0, now - SETTLED_AFTER)

    def _read(self, where: str, *values: object) -> list[Outage]:
        query = f"SELECT id, service, began_at, ended_at, why, times FROM outage WHERE {where}"  # noqa: S608
        rows = self._journal.rows(query, *values)
        return [Outage(*row) for row in rows]


def _is_known(db: sqlite3.Connection, service: str, where: str, *values: float) -> bool:
    query = f"SELECT 1 FROM outage WHERE service = ? AND ({where})"  # noqa: S608
    return db.execute(query, (service, *values)).fetchone() is not None


def _add(db: sqlite3.Connection, service: str, began_at: float, ended_at: float | None, why: str) -> None:
    """To the last outage, if that has just ended: whether it is seen or told by a failover is a matter of milliseconds.

    `ended_at`: None while it goes on.
    """
    # No outage ends before it began: `began_at` may be of before the last one. max() of a NULL is NULL.
    goes_on = db.execute(
        "UPDATE outage SET ended_at = max(ended_at, ?), why = ?, times = times + 1 WHERE abs(? - ended_at) < ? "
        "AND id = (SELECT max(id) FROM outage WHERE service = ?)",
        (ended_at, why, began_at, SAME_OUTAGE, service),
    )
    if goes_on.rowcount:
        return
    db.execute(
        "INSERT INTO outage (service, began_at, ended_at, why) VALUES (?, ?, ?, ?)", (service, began_at, ended_at, why)
    )
    db.execute("DELETE FROM outage WHERE service = ? AND ended_at < ?", (service, began_at - KEPT))
