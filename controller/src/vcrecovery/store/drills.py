"""Drills, in the journal: beside the episodes, so that no rehearsal is ever taken for a failover."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from vcrecovery.core.drill import Drill, DrillOutcome, DrillsOf, DrillStep, StepDone
from vcrecovery.errors import ExternalError

if TYPE_CHECKING:
    from vcrecovery.store.journal import Journal

#: Seconds for which a drill is remembered. The newest and the newest good one of a service are kept in any case.
KEPT = 3 * 365 * 86400.0
_NEWEST = "id IN (SELECT max(id) FROM drill GROUP BY service)"
_NEWEST_GOOD = "id IN (SELECT max(id) FROM drill WHERE outcome = 'passed' GROUP BY service)"


class DrillBook:
    """The journal's part about drills. Its methods raise ExternalError when the journal cannot be used."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def begin(self, services: Sequence[str], at: float, asked_by: str) -> dict[str, int]:
        """One drill of these services has begun; the number of each one's part."""
        with self._journal.transaction() as db:
            db.execute(f"DELETE FROM drill WHERE began_at < ? AND NOT {_NEWEST} AND NOT {_NEWEST_GOOD}", (at - KEPT,))  # noqa: S608
            found = {}
            for name in services:
                row = db.execute(
                    "INSERT INTO drill (service, began_at, asked_by) VALUES (?, ?, ?)", (name, at, asked_by)
                )
                found[name] = int(row.lastrowid or 0)
            return found

    def did(self, number: int, steps: Sequence[StepDone]) -> None:
        """So far these steps were done."""
        with self._journal.transaction() as db:
            db.execute("UPDATE drill SET steps = ? WHERE id = ?", (json.dumps([asdict(s) for s in steps]), number))

    def end(self, number: int, outcome: DrillOutcome, reason: str, at: float) -> None:
        with self._journal.transaction() as db:
            db.execute(
                "UPDATE drill SET ended_at = ?, outcome = ?, reason = ? WHERE id = ? AND outcome IS NULL",
                (at, outcome.value, reason, number),
            )

    def interrupted(self, at: float) -> None:
        """Those that are not ended never will be: whoever carried them out is gone."""
        if not self._journal.rows("SELECT 1 FROM drill WHERE outcome IS NULL LIMIT 1"):
            return
        with self._journal.transaction() as db:
            db.execute(
                "UPDATE drill SET ended_at = ?, outcome = ?, reason = ? WHERE outcome IS NULL",
                (at, DrillOutcome.INTERRUPTED.value, "its program was killed"),
            )

    def open_failovers(self) -> set[str]:
        """The services whose failover is not finished."""
        return {name for (name,) in self._journal.rows("SELECT service FROM episode WHERE closed_at IS NULL")}

    def newest_failover(self) -> tuple[int, str]:
        """The number of the newest failover, open or not, and its service; 0 where there was none."""
        rows = self._journal.rows("SELECT id, service FROM episode ORDER BY id DESC LIMIT 1")
        return (int(rows[0][0]), str(rows[0][1])) if rows else (0, "")

    def all(self) -> dict[str, DrillsOf]:
        """By service, for those that had one."""
        last = self._read(_NEWEST)
        good = {one.service: one for one in self._read(_NEWEST_GOOD)}
        return {one.service: DrillsOf(good.get(one.service), one) for one in last}

    def history(self, service: str | None = None, limit: int = 20, since: float = 0.0) -> list[Drill]:
        """Those that began since then, newest first."""
        if service is not None:
            return self._read("service = ? AND began_at >= ? ORDER BY id DESC LIMIT ?", service, since, limit)
        return self._read("began_at >= ? ORDER BY id DESC LIMIT ?", since, limit)

    def counts(self, since: float) -> dict[str, int]:
        """How many each service had since then, for those that had one."""
        return dict(
            self._journal.rows("SELECT service, count(*) FROM drill WHERE began_at >= ? GROUP BY service", since)
        )

    def _read(self, where: str, *values: object) -> list[Drill]:
        query = f"SELECT id, service, began_at, asked_by, ended_at, outcome, reason, steps FROM drill WHERE {where}"  # noqa: S608
        try:
            return [
                Drill(
                    *(number, name, began_at, by, ended_at),
                    outcome=DrillOutcome(outcome) if outcome is not None else None,
                    reason=reason,
                    steps=_steps(steps),
                )
                for number, name, began_at, by, ended_at, outcome, reason, steps in self._journal.rows(query, *values)
            ]
        except (ValueError, TypeError, KeyError) as error:
            raise ExternalError(
                f"the journal holds a drill that this version does not know: {error}",
                "use the vcrecovery that wrote it",
            ) from error


def _steps(said: str) -> tuple[StepDone, ...]:
    return tuple(
        StepDone(DrillStep(step["step"]), step["at"], step["seconds"], step["detail"]) for step in json.loads(said)
    )
