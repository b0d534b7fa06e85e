"""The journal: every step is on disk before it acts. SQLite in WAL mode, with an fsync at each commit.

One file for all controllers of one machine. A controller that died leaves a step that began and did not end; the next
one runs it again, which is harmless, since steps look before they act. What the table of states does not allow is not
written, and so not done.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from itertools import groupby
from math import inf
from operator import itemgetter
from pathlib import Path
from typing import Any

from vcrecovery.core.episode import ACTS, Episode, How, Outcome, Request, Step, StepRecord, Symptom
from vcrecovery.core.evidence import Confirmation, Evidence, Failed, HookRun, Started, Verified
from vcrecovery.core.phase import allowed, phase_of
from vcrecovery.core.power import Power
from vcrecovery.core.service_state import ServiceState, Serving, Side, Suspension
from vcrecovery.core.sighting import OffTime, Sighting
from vcrecovery.errors import ExternalError, InternalError, what_helps
from vcrecovery.store.connection import connect
from vcrecovery.store.evidence_json import read, written
from vcrecovery.store.group_commit import GroupCommit
from vcrecovery.store.schema import (
    DRAINED_SCHEMA,
    DRILL_SCHEMA,
    EVENT_SCHEMA,
    JOURNAL_SCHEMA,
    LEASE_SCHEMA,
    NOTICE_SCHEMA,
    OUTAGE_SCHEMA,
    POWERED_SCHEMA,
    QUARANTINE_INDEX,
    QUARANTINE_SCHEMA,
    STANDBY_END_SCHEMA,
)

#: Steps of an episode that are kept while it has not come to its fence.
_FIRST_LOOKS, _LAST_LOOKS = 50, 150
#: Seconds for which it is kept when a primary was off: no standby that is older will be started unforced.
_OFF_KEPT = 30 * 86400.0


#: Of an episode: a failback; one after which the standby serves; and a failover among these, no switchover.
_BACK = """request LIKE '%"back": true%'"""
_MOVE = """request LIKE '%"planned": true%' AND request LIKE '%"to": "%'"""
#: The secondary on which a standby is, if that was written down: it was moved there, or is at home and was started.
#: What an older version, which does not know of starts, has left of one says nothing once the primary serves.
_ON = """COALESCE(standby_on, CASE WHEN side = 'standby' OR EXISTS (
    SELECT 1 FROM episode AS o JOIN step AS s ON s.episode = o.id
    WHERE o.service = service.name AND o.closed_at IS NULL AND s.step = 'start'
) THEN started_on END)"""
#: Of a move of a standby that waits.
_LEAVES = """request LIKE '%"leaves": "%'"""
_TO_THE_STANDBY = f"outcome = 'done' AND NOT ({_BACK}) AND NOT ({_MOVE})"
_FAILED_OVER = f"""{_TO_THE_STANDBY} AND request NOT LIKE '%"planned": true%'"""

#: Of a step: see `Episode.has_acted`.
_ACTS = f"""step IN ({", ".join(f"'{step}'" for step in ACTS)})"""

_OF_A_FAILBACK = (("back", False), ("rebuilt", False), ("commit_after", None))
_OF_A_SPARE = (("to", None), ("secondary_is_down", False), ("how", How.WARM), ("leaves", None))
_UNSAID = (
    ("symptom", Symptom.NONE),
    ("began_at", None),
    ("again", False),
    ("planned", False),
    *_OF_A_FAILBACK,
    *_OF_A_SPARE,
    ("of_several", False),
)


def _written(request: Request) -> str:
    """Without what an earlier version does not know, as far as it is not said."""
    said = asdict(request)
    return json.dumps({key: value for key, value in said.items() if (key, value) not in _UNSAID})


def _request(said: str, cause: str) -> Request:
    found = json.loads(said)
    # A symptom was called a doubt once, and that libvirt called it a failure stood in the cause alone.
    symptom = found.pop("doubt", found.pop("symptom", ""))
    if not symptom and found.get("automatic") and cause.startswith("libvirt:"):
        symptom = Symptom.ENDED
    how = How(found.pop("how", How.WARM))
    return Request(**found, symptom=Symptom(symptom), how=how)


class Journal:
    """What happened to each service, and what is in progress."""

    def __init__(self, path: Path) -> None:
        """Opens or creates the journal.

        Raises ExternalError when the file cannot be used.
        """
        self._path = path
        self._one_at_a_time = threading.RLock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = connect(path)
            self._together = GroupCommit(self._db, self._one_at_a_time)
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.executescript(
                JOURNAL_SCHEMA
                + EVENT_SCHEMA
                + QUARANTINE_SCHEMA
                + OUTAGE_SCHEMA
                + STANDBY_END_SCHEMA
                + DRAINED_SCHEMA
                + POWERED_SCHEMA
                + LEASE_SCHEMA
                + DRILL_SCHEMA
                + NOTICE_SCHEMA
            )
            self._bring_up_to_date()
        except (sqlite3.Error, OSError) as error:
            raise self._unusable(error) from error

    def _bring_up_to_date(self) -> None:
        """Adds what a journal of an older version lacks."""
        for table, column, kind in (
            ("service", "acknowledged_at", "REAL"),
            ("service", "seen_power", "TEXT"),
            ("service", "seen_reason", "TEXT"),
            ("service", "seen_since", "REAL"),
            ("service", "seen_at", "REAL"),
            ("service", "seen_on", "TEXT"),
            ("service", "standby_on", "TEXT"),
            ("service", "started_on", "TEXT"),
            ("service", "started_with_host", "INTEGER NOT NULL DEFAULT 0"),
            ("service", "written_off", "INTEGER"),
            ("step", "sentence", "TEXT NOT NULL DEFAULT ''"),
            ("hold", "host", "TEXT NOT NULL DEFAULT ''"),
            ("event", "handled", "INTEGER NOT NULL DEFAULT 0"),
            ("standby_end", "started_at", "REAL"),
            ("powered", "asked_off_at", "REAL"),
            ("lease", "options", "TEXT NOT NULL DEFAULT 'null'"),
        ):
            if self._has(table, column):
                continue
            with self.transaction() as db:
                # Another process may have added it meanwhile.
                if not self._has(table, column):
                    db.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")
        self._db.execute("DROP INDEX IF EXISTS one_open_hold")
        self._db.execute(QUARANTINE_INDEX)

    def _has(self, table: str, column: str) -> bool:
        return column in {row[1] for row in self._db.execute(f"PRAGMA table_info({table})")}

    def _unusable(self, error: Exception) -> ExternalError:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        hint = f"{what_helps(error)}, then run it again"
        if self._is_on_a_read_only_disk():
            # SQLite has other words for that each time. An error of the disk makes it so.
            hint = "its file system is read-only: `dmesg` says why; "
            hint += f"`findmnt -T {self._path.parent}` shows which one it is"
        elif "is locked" in said:
            hint = f"`fuser -v {self._path}` shows by whom; then run it again"
        elif "not a database" in said or "malformed" in said:
            hint = "restore a copy, or move it away; without it, check yourself who serves: it knows of no failover"
        elif "readonly" in said:
            hint = "call as the user to whom it belongs"
        return ExternalError(f"the journal {self._path} cannot be used: {said}", hint)

    def _is_on_a_read_only_disk(self) -> bool:
        with suppress(OSError):
            return bool(os.statvfs(self._path.parent).f_flag & os.ST_RDONLY)
        return False

    @contextmanager
    def _understood(self) -> Iterator[None]:
        """Raises ExternalError for what is none of this version's values."""
        try:
            yield
        except (ValueError, TypeError) as error:
            raise ExternalError(
                f"the journal {self._path} holds what this version does not know: {error}",
                "use the vcrecovery that wrote it",
            ) from error

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Everything in it or nothing; on the disk when it ends. Raises ExternalError."""
        try:
            with self._together.transaction() as db:
                yield db
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Raises ExternalError."""
        try:
            with self._one_at_a_time:
                return self._db.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    # -- services ----------------------------------------------------------------------------------------------

    def state(self, service: str) -> ServiceState:
        # First of all: of a failover that ends between the two statements, by another controller, one of them must
        # tell. Else the primary would seem to serve, and one that is held would be let go.
        episodes = self._episodes("service = ? AND closed_at IS NULL", service)
        rows = self.rows(
            "SELECT epoch, side, seen_running_at, paused_since, paused_until, pause_reason, acknowledged_at, "  # noqa: S608
            # Not the greatest time: the clock may have been set back between two of them.
            # What was planned is no failure: the next one that is may be failed over at once.
            f"(SELECT closed_at FROM episode WHERE service = name AND {_FAILED_OVER} ORDER BY id DESC LIMIT 1), "
            "(SELECT closed_at FROM episode WHERE service = name AND outcome = 'withdrawn' ORDER BY id DESC LIMIT 1), "
            f"{_ON}, seen_power, seen_reason, seen_since, seen_at, seen_on "
            "FROM service WHERE name = ?",
            service,
        )
        episode = episodes[0] if episodes else None
        if not rows:
            return ServiceState(service, open_episode=episode)
        epoch, side, seen, since, until, reason, acknowledged, done, withdrawn, on, *sighting = rows[0]
        suspension = Suspension(since, until, reason or "") if since is not None else None
        with self._understood():
            serves = Side(side)
            last = Sighting(Power(sighting[0]), *sighting[1:]) if sighting[0] is not None else None
        return ServiceState(service, epoch, serves, seen, suspension, episode, done, acknowledged, withdrawn, last, on)

    def who_serves(self) -> dict[str, Serving]:
        """Of all services that have a history; of the others, the primary does."""
        rows = self.rows(
            # While its VM fetches, or another secondary, a standby serves as ever; so does a VM whose standby is moved.
            "SELECT name, side, epoch, EXISTS (SELECT 1 FROM episode AS e WHERE service = name AND closed_at IS NULL "  # noqa: S608
            f"AND NOT {_LEAVES} AND NOT (({_BACK} OR {_MOVE}) "
            f"AND NOT EXISTS (SELECT 1 FROM step WHERE episode = e.id AND {_ACTS}))), {_ON}, written_off FROM service"
        )
        with self._understood():
            return {name: Serving(Side(side), epoch, bool(at), on, off) for name, side, epoch, at, on, off in rows}

    def epoch_started(self, service: str) -> int:
        """Of the newest operation that has had its standby serve; later ones were withdrawn before that. 0: none."""
        (found,) = self.rows(
            "SELECT MAX(epoch) FROM step WHERE service = ? AND step IN (?, ?) AND ok",
            service,
            Step.START.value,
            Step.TAKE_BACK.value,
        )
        return int(found[0] or 0)

    def may_be_who_serves(self, service: str, of: int, epoch: int) -> bool:
        """Of a container of epoch `of`, at `epoch`: an operation that was withdrawn has spent its own, and has not
        started it."""
        return of == epoch or self.epoch_started(service) <= of < epoch

    def standbys_elsewhere(self) -> dict[str, str]:
        """The secondary whose container counts, of standbys that have been started, or moved; see `placed_on`."""
        found = dict(self.rows(f"SELECT name, {_ON} FROM service WHERE {_ON} IS NOT NULL"))  # noqa: S608
        for episode in self._episodes("closed_at IS NULL AND request LIKE ?", '%"to": "%'):
            if episode.has_acted and episode.request.to is not None:
                found[episode.service] = episode.request.to
        return found

    def bound_to(self, secondary: str) -> list[str]:
        """Services that need it, of those that stand by elsewhere.

        A move that is not finished may still need the rest of its files, or take it back: where it leaves counts too.
        """
        coming = {episode.service for episode in self.open_episodes() if episode.request.to == secondary}
        return sorted(coming | {name for name, found in self.who_serves().items() if found.standby_on == secondary})

    def _set(self, db: sqlite3.Connection, service: str, **values: object) -> None:
        db.execute("INSERT OR IGNORE INTO service (name) VALUES (?)", (service,))
        columns = ", ".join(f"{column} = ?" for column in values)
        db.execute(f"UPDATE service SET {columns} WHERE name = ?", (*values.values(), service))  # noqa: S608

    def suspend(self, service: str, suspension: Suspension | None) -> None:
        with self.transaction() as db:
            self._set(
                db,
                service,
                paused_since=suspension.since if suspension else None,
                paused_until=suspension.until if suspension else None,
                pause_reason=suspension.reason if suspension else None,
            )

    def acknowledge(self, service: str, at: float) -> None:
        """The operator has seen the newest failover: the next one may begin by itself.

        Also when the clock was set back since: what is acknowledged is the failover, not a time.
        """
        with self.transaction() as db:
            self._acknowledge(db, service, at)

    def _acknowledge(self, db: sqlite3.Connection, service: str, at: float) -> None:
        newest = db.execute(
            f"SELECT closed_at FROM episode WHERE service = ? AND {_FAILED_OVER} ORDER BY id DESC LIMIT 1",  # noqa: S608
            (service,),
        ).fetchone()
        self._set(db, service, acknowledged_at=max(at, *newest) if newest else at)

    def saw_running(self, service: str, at: float) -> None:
        """The primary was seen running: from now on its end is a failure."""
        with self.transaction() as db:
            self._set(db, service, seen_running_at=at)

    def saw(self, news: Mapping[str, tuple[Sighting, OffTime | None]]) -> None:
        """What hypervisors said of these services' primaries, each with a time in which it was off."""
        with self.transaction() as db:
            for service, (seen, off) in news.items():
                self._set(
                    db,
                    service,
                    seen_power=seen.power.value,
                    seen_reason=seen.reason,
                    seen_since=seen.since,
                    seen_at=seen.at,
                    seen_on=seen.host,
                )
                if off is not None:
                    oldest = off.until - _OFF_KEPT
                    db.execute("INSERT OR REPLACE INTO primary_off VALUES (?, ?, ?)", (service, off.since, off.until))
                    db.execute("DELETE FROM primary_off WHERE service = ? AND until < ?", (service, oldest))

    def off_times(self, service: str) -> list[OffTime]:
        """When the primary was seen to be off."""
        return [OffTime(*row) for row in self.rows("SELECT since, until FROM primary_off WHERE service = ?", service)]

    def last_host(self, service: str) -> str | None:
        """The hypervisor on which its primary was seen last."""
        found = self.rows("SELECT seen_on FROM service WHERE name = ?", service)
        return found[0][0] if found else None

    def last_hosts(self) -> dict[str, str]:
        """The hypervisor on which each primary was seen last."""
        return dict(self.rows("SELECT name, seen_on FROM service WHERE seen_on IS NOT NULL"))

    def last_powers(self) -> dict[str, Power]:
        """What each primary was seen to do last."""
        rows = self.rows("SELECT name, seen_power FROM service WHERE seen_power IS NOT NULL")
        with self._understood():
            return {name: Power(power) for name, power in rows}

    def note_that_it_started_with_its_host(self, service: str) -> None:
        """Its VM is about to be kept from that, until a failback is done."""
        with self.transaction() as db:
            self._set(db, service, started_with_host=1)

    def started_with_its_host(self, service: str) -> bool:
        """Whether its VM did, before it was fenced or quarantined."""
        return bool(self.rows("SELECT 1 FROM service WHERE name = ? AND started_with_host", service))

    def written_off(self, service: str) -> int | None:
        """Up to which epoch what its standby has served was given up; None: nothing was."""
        return next((epoch for (epoch,) in self.rows("SELECT written_off FROM service WHERE name = ?", service)), None)

    def serve_from_primary(self, service: str, at: float, *, writes_off: bool = False) -> None:
        """The operator has brought the primary back. It counts as protected once it is seen running.

        A failover that was not done is given up: who went on with it would start a second live copy. `writes_off`: the
        container that served is out of reach, and is to serve no more if it comes back.
        """
        with self.transaction() as db:
            for episode in self._episodes("service = ? AND closed_at IS NULL", service):
                if Outcome.GIVEN_UP in allowed(episode):
                    self._close(db, episode.id, Outcome.GIVEN_UP, "its primary serves again", at)
            self._set(db, service, side=Side.PRIMARY.value, seen_running_at=None, standby_on=None, started_on=None)
            db.execute(
                "UPDATE service SET written_off = CASE WHEN ? THEN epoch END WHERE name = ?", (writes_off, service)
            )

    # -- episodes ----------------------------------------------------------------------------------------------

    def open(self, service: str, cause: str, request: Request, at: float, epoch_elsewhere: int = 0) -> Episode:
        """The episode under way, or a new one. Its epoch is greater than any known before."""
        with self.transaction() as db:
            rows = db.execute("SELECT id FROM episode WHERE service = ? AND closed_at IS NULL", (service,)).fetchall()
            if rows:
                self._take_up(db, rows[0][0], cause, request, at)
            else:
                db.execute("INSERT OR IGNORE INTO service (name) VALUES (?)", (service,))
                (known,) = db.execute("SELECT epoch FROM service WHERE name = ?", (service,)).fetchone()
                db.execute(
                    "INSERT INTO episode (service, epoch, cause, request, opened_at) VALUES (?, ?, ?, ?, ?)",
                    (service, max(known, epoch_elsewhere) + 1, cause, _written(request), at),
                )
        return self._episodes("service = ? AND closed_at IS NULL", service)[0]

    @staticmethod
    def _take_up(db: sqlite3.Connection, episode: int, cause: str, request: Request, at: float) -> None:
        """An episode that has not acted starts afresh: neither its cause nor its orders hold any more.

        After that a restore point that was named stays: the standby may be half-way back to it.
        """
        said = _written(request)
        acted = db.execute(
            f"SELECT 1 FROM step WHERE episode = ? AND {_ACTS}",  # noqa: S608
            (episode,),
        ).fetchone()
        if not acted:
            db.execute(
                "UPDATE episode SET cause = ?, request = ?, opened_at = ? WHERE id = ?", (cause, said, at, episode)
            )
        elif not request.automatic:
            (before,) = db.execute("SELECT request FROM episode WHERE id = ?", (episode,)).fetchone()
            restore_point = request.restore_point or json.loads(before).get("restore_point")
            said = _written(replace(request, restore_point=restore_point))
            db.execute("UPDATE episode SET request = ? WHERE id = ?", (said, episode))

    def _allow(self, episode: Episode, what: Step | Outcome) -> None:
        """Raises InternalError when the table of states does not have it, whatever the caller believes."""
        found = self._episodes("id = ?", episode.id)
        if not found or what not in allowed(found[0]):
            state = f"is {phase_of(found[0])}" if found else "is not in the journal"
            raise InternalError(
                f"{episode.service}: epoch {episode.epoch} {state}: {what.value!r} must not follow; it was not done",
                f"this is a bug of VCRecovery: please report it with the output of `vcrecovery explain {episode.id}`",
            )

    def begin(self, episode: Episode, step: Step, at: float, sentence: str = "", on: str | None = None) -> int:
        """Says that `step` is about to act, and why; the row's number. The epoch is spent with the first act.

        `on`: of a start, the secondary. Whatever the plan says from now on, the container there may be the live one.
        Raises InternalError when it must not begin now.
        """
        with self.transaction() as db:
            self._allow(episode, step)
            if step is Step.CONFIRM:
                self._thin_out(db, episode)
            if step in (Step.FENCE, Step.STOP):
                self._set(db, episode.service, epoch=episode.epoch)
            if step is Step.START and on is not None and episode.request.to is None:
                self._set(db, episode.service, started_on=on)
            cursor = db.execute(
                "INSERT INTO step (episode, service, epoch, step, begun_at, sentence) VALUES (?, ?, ?, ?, ?, ?)",
                (episode.id, episode.service, episode.epoch, step.value, at, sentence),
            )
            assert cursor.lastrowid is not None  # noqa: S101  an INSERT has one
            return cursor.lastrowid

    @staticmethod
    def _thin_out(db: sqlite3.Connection, episode: Episode) -> None:
        """What waits for others before its fence may do so for days, and is read whole at each look.

        Nothing rests on a look before the newest two there; of the others, the first and the last ones tell it all.
        """
        db.execute(
            "DELETE FROM step WHERE episode = :id "
            "AND NOT EXISTS (SELECT 1 FROM step WHERE episode = :id AND step = 'fence') "
            "AND id NOT IN (SELECT id FROM step WHERE episode = :id ORDER BY id LIMIT :first) "
            "AND id NOT IN (SELECT id FROM step WHERE episode = :id ORDER BY id DESC LIMIT :last)",
            {"id": episode.id, "first": _FIRST_LOOKS, "last": _LAST_LOOKS},
        )

    def end(self, row: int, at: float, *, ok: bool, evidence: Evidence) -> None:
        with self.transaction() as db:
            db.execute(
                "UPDATE step SET ended_at = ?, ok = ?, evidence = ? WHERE id = ?", (at, ok, written(evidence), row)
            )
            if ok:
                self._who_serves_now(db, row)

    def _who_serves_now(self, db: sqlite3.Connection, row: int) -> None:
        """From the start of the standby on, it serves, or will; from the end of a failback's hand-over on, the VM.

        One that waits does so where it takes files.
        """
        service, step, request = db.execute(
            "SELECT s.service, step, request FROM step AS s JOIN episode AS e ON e.id = s.episode WHERE s.id = ?",
            (row,),
        ).fetchone()
        if step == Step.START:
            self._set(db, service, side=Side.STANDBY.value)
        elif step == Step.HAND_OVER:
            self._set(db, service, side=Side.PRIMARY.value, seen_running_at=None, standby_on=None, started_on=None)
        elif step == Step.RECEIVE:
            self._set(db, service, standby_on=json.loads(request)["to"])
        elif step == Step.TAKE_BACK and (leaves := json.loads(request).get("leaves")) is not None:
            self._set(db, service, standby_on=leaves)

    def note_hooks(self, episode: Episode, step: Step, ran: Sequence[HookRun]) -> None:
        """Into the evidence of the newest try of `step` that has ended, where that has room for it."""
        rows = self.rows(
            "SELECT id, ok, evidence FROM step WHERE episode = ? AND step = ? AND ended_at IS NOT NULL "
            "ORDER BY id DESC LIMIT 1",
            episode.id,
            step.value,
        )
        for row, ok, text in rows:
            with self._understood():
                evidence = read(step, ok=bool(ok), text=text)
            if isinstance(evidence, Confirmation | Failed | Started | Verified):
                noted = replace(evidence, hooks=(*evidence.hooks, *ran))
                with self.transaction() as db:
                    db.execute("UPDATE step SET evidence = ? WHERE id = ?", (written(noted), row))

    def close(self, episode: Episode, outcome: Outcome, reason: str, at: float) -> None:
        """Raises InternalError when it must not end so now."""
        with self.transaction() as db:
            self._allow(episode, outcome)
            self._close(db, episode.id, outcome, reason, at)
            db.execute(
                "UPDATE service SET started_on = NULL WHERE name = ? AND side = ?",
                (episode.service, Side.PRIMARY.value),
            )
            left_there = outcome is Outcome.GIVEN_UP and episode.tried(Step.START)
            if episode.request.to is not None and (outcome is Outcome.DONE or left_there):
                self._set(db, episode.service, standby_on=episode.request.to)
            if outcome is Outcome.DONE and episode.request.back:
                self._acknowledge(db, episode.service, at)
                # It does again.
                self._set(db, episode.service, started_with_host=0)
            elif outcome is Outcome.DONE and episode.request.leaves is None:
                # What was acknowledged is an earlier one, whatever a clock that was set back since says.
                self._set(db, episode.service, acknowledged_at=None)

    @staticmethod
    def _close(db: sqlite3.Connection, episode: int, outcome: Outcome, reason: str, at: float) -> None:
        db.execute(
            "UPDATE episode SET closed_at = ?, outcome = ?, reason = ? WHERE id = ? AND closed_at IS NULL",
            (at, outcome.value, reason, episode),
        )

    def episode(self, number: int) -> Episode | None:
        found = self._episodes("id = ?", number)
        return found[0] if found else None

    def history(self, service: str | None = None, limit: int = 20, since: float = 0.0) -> list[Episode]:
        """Episodes that were opened since then, newest first."""
        if service is None:
            return self._episodes("opened_at >= ? ORDER BY id DESC LIMIT ?", since, limit)
        return self._episodes("service = ? AND opened_at >= ? ORDER BY id DESC LIMIT ?", service, since, limit)

    def open_episodes(self) -> list[Episode]:
        """One of a service at the most."""
        return self._episodes("closed_at IS NULL")

    def since(self, at: float, limit: int) -> list[Episode]:
        """Those that were opened since then, or are not finished, however old; newest first."""
        return self._episodes("opened_at >= ? OR closed_at IS NULL ORDER BY id DESC LIMIT ?", at, limit)

    def count_since(self, at: float) -> int:
        """How many these are."""
        rows = self.rows("SELECT count(*) FROM episode WHERE opened_at >= ? OR closed_at IS NULL", at)
        return int(rows[0][0])

    def newest_done(self, service: str) -> Episode | None:
        """The newest failover or switchover that was done."""
        found = self._episodes(f"service = ? AND {_TO_THE_STANDBY} ORDER BY id DESC LIMIT 1", service)
        return found[0] if found else None

    def waiting_move_ended(self, service: str) -> float | None:
        """When the newest move of its standby ended that was made while that waited; infinity while one is open."""
        found = self.rows(
            f"SELECT closed_at FROM episode WHERE service = ? AND {_LEAVES} ORDER BY id DESC LIMIT 1",  # noqa: S608
            service,
        )
        return (inf if found[0][0] is None else found[0][0]) if found else None

    def failbacks(self, service: str, limit: int = 10) -> list[Episode]:
        """Newest first."""
        return self._episodes(f"service = ? AND {_BACK} ORDER BY id DESC LIMIT ?", service, limit)

    def outcomes(self) -> dict[tuple[str, Outcome], int]:
        """How many episodes of each service ended in which way."""
        rows = self.rows(
            "SELECT service, outcome, count(*) FROM episode WHERE outcome IS NOT NULL GROUP BY service, outcome"
        )
        with self._understood():
            return {(service, Outcome(outcome)): count for service, outcome, count in rows}

    def _episodes(self, where: str, *values: object) -> list[Episode]:
        """The newest first, with their steps in one statement: each statement costs a thread its turn."""
        rows = self.rows(
            "SELECT e.id, e.service, e.epoch, cause, request, opened_at, closed_at, outcome, reason, "  # noqa: S608
            "s.step, s.begun_at, s.ended_at, s.ok, s.evidence, s.sentence "
            f"FROM (SELECT * FROM episode WHERE {where}) AS e LEFT JOIN step AS s ON s.episode = e.id "
            "ORDER BY e.id DESC, s.id",
            *values,
        )
        with self._understood():
            return [_episode(list(of_one)) for _, of_one in groupby(rows, key=itemgetter(0))]


def _episode(rows: Sequence[tuple[Any, ...]]) -> Episode:
    """From one row for each of its steps; one with nothing in their place, where it has none."""
    number, service, epoch, cause, request, opened, closed, outcome, reason = rows[0][:9]
    steps = (row[9:] for row in rows if row[9] is not None)
    return Episode(
        id=number,
        service=service,
        epoch=epoch,
        cause=cause,
        request=_request(request, cause),
        opened_at=opened,
        steps=tuple(
            StepRecord(Step(step), begun, ended, bool(ok), read(Step(step), ok=bool(ok), text=evidence), sentence)
            for step, begun, ended, ok, evidence, sentence in steps
        ),
        closed_at=closed,
        outcome=Outcome(outcome) if outcome else None,
        reason=reason,
    )
