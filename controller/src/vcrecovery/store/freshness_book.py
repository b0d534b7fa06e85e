"""How old each standby was, and how much its sync has sent, hour by hour, for the reports.

In a file of its own beside the journal: SQLite has one writer per file, and a failover's step must not wait for
figures, nor for their way to the disk. Whoever loses or removes this file loses a curve in a report, and what a month's
traffic was.
"""

from __future__ import annotations

import sqlite3
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from vcrecovery.core.ages import NO_AGES, Ages, added
from vcrecovery.core.sent_bytes import SentCount
from vcrecovery.errors import ExternalError
from vcrecovery.store.connection import connect

NAME = "freshness.db"
HOUR = 3600
#: Seconds for which an hour is remembered: a year can be compared with the one before.
KEPT = 400 * 86400
T = TypeVar("T")
#: Of each count: more looks than 400 days have.
_SIZE, _BITS = 4, 32
#: Bytes in an hour: a VM may say what it likes, and sums must not overflow.
_MOST_SENT = 1 << 50
_SCHEMA = """
CREATE TABLE IF NOT EXISTS age (
    hour INTEGER NOT NULL, service TEXT NOT NULL,
    most REAL NOT NULL, unknown INTEGER NOT NULL, first INTEGER NOT NULL, counts BLOB NOT NULL,
    PRIMARY KEY (hour, service)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sent (
    hour INTEGER NOT NULL, service TEXT NOT NULL, bytes INTEGER NOT NULL, PRIMARY KEY (hour, service)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sent_count (
    service TEXT PRIMARY KEY, boot TEXT, total INTEGER NOT NULL, since REAL NOT NULL
) STRICT, WITHOUT ROWID;
"""


def hour_of(at: float) -> int:
    """Hours since the epoch: no time zone and no summer time has a say in it."""
    return int(at // HOUR)


class FreshnessBook:
    """Opens or creates the file. Each of its methods raises ExternalError when that cannot be used."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / NAME
        self._one_at_a_time = threading.Lock()
        with self._understood():
            state_dir.mkdir(parents=True, exist_ok=True)
            self._db = connect(self._path)
            # A power cut may take the last minutes: no decision rests on them.
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(_SCHEMA)

    @contextmanager
    def _understood(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, ValueError, struct.error) as error:
            raise ExternalError(
                f"{self._path} cannot be used: {error}",
                "it only holds how fresh standbys were, and what was sent: free some space, correct its rights,"
                " or move it away",
            ) from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._understood():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                self._db.execute("ROLLBACK")
                raise

    def add(self, found: Mapping[tuple[str, int], Ages], now: float) -> None:
        """To what is there, by service and hour; what is too old goes."""
        with self._one_at_a_time, self._transaction():
            for (service, hour), ages in found.items():
                known = self._read("hour = ? AND service = ?", hour, service).get((service, hour), NO_AGES)
                row = (hour, service, *_written(added((known, ages))))
                self._db.execute("INSERT OR REPLACE INTO age VALUES (?, ?, ?, ?, ?, ?)", row)
            self._db.execute("DELETE FROM age WHERE hour < ?", (hour_of(now - KEPT),))

    def add_sent(self, found: Mapping[tuple[str, int], int], counts: Mapping[str, SentCount], now: float) -> None:
        """Bytes by service and hour, and how far each service's count was then; what is too old goes."""
        with self._one_at_a_time, self._transaction():
            for (service, hour), size in found.items():
                self._db.execute(
                    "INSERT INTO sent VALUES (?, ?, ?)"
                    " ON CONFLICT DO UPDATE SET bytes = min(bytes + excluded.bytes, ?)",
                    (hour, service, min(size, _MOST_SENT), _MOST_SENT),
                )
            for service, count in counts.items():
                self._db.execute(
                    "INSERT INTO sent_count VALUES (?, ?, ?, ?)"
                    " ON CONFLICT DO UPDATE SET boot = excluded.boot, total = excluded.total",
                    (service, count.boot, count.total, now),
                )
            self._db.execute("DELETE FROM sent WHERE hour < ?", (hour_of(now - KEPT),))

    def sent_counts(self) -> dict[str, SentCount]:
        """How far each service's count was when it was last written."""
        with self._one_at_a_time, self._understood():
            rows = self._db.execute("SELECT service, boot, total FROM sent_count")
            return {service: SentCount(boot, total) for service, boot, total in rows}

    def sent_between(self, begin: float, end: float) -> dict[str, tuple[int, float]]:
        """By service: the bytes of the hours from `begin` up to `end`, and since when there is a count."""
        query = (
            "SELECT service, since, (SELECT coalesce(sum(bytes), 0) FROM sent"
            " WHERE sent.service = sent_count.service AND hour >= ? AND hour <= ?) FROM sent_count"
        )
        with self._one_at_a_time, self._understood():
            rows = self._db.execute(query, (hour_of(begin), hour_of(end - 1)))
            return {service: (size, since) for service, since, size in rows}

    def since(self, at: float) -> dict[tuple[str, int], Ages]:
        """By service and hour, from the hour of that time on."""
        with self._one_at_a_time, self._understood():
            return self._read("hour >= ?", hour_of(at))

    def summed(self, since: float, part_of: Callable[[int], T]) -> dict[tuple[str, T], Ages]:
        """By service and by what `part_of` makes of an hour, such as its day: a year has too many hours to keep all."""
        sums: dict[tuple[str, T], list[Any]] = {}
        query = "SELECT service, hour, most, unknown, first, counts FROM age WHERE hour >= ? ORDER BY hour"
        part, of_hour = None, None
        with self._one_at_a_time, self._understood():
            for service, hour, most, unknown, first, counts in self._db.execute(query, (hour_of(since),)):
                if part is None or hour != of_hour:
                    part, of_hour = part_of(hour), hour
                found = sums.setdefault((service, part), [0, 0.0, 0])
                # All counts of an hour are one long number, so that to add them up is one sum.
                found[0] += int.from_bytes(counts, "little") << (_BITS * first)
                found[1] = max(found[1], most)
                found[2] += unknown
        return {key: Ages(_buckets(0, _bytes(counts)), most, unknown) for key, (counts, most, unknown) in sums.items()}

    def _read(self, where: str, *values: object) -> dict[tuple[str, int], Ages]:
        query = f"SELECT service, hour, most, unknown, first, counts FROM age WHERE {where}"  # noqa: S608
        return {
            (service, hour): Ages(_buckets(first, counts), most, unknown)
            for service, hour, most, unknown, first, counts in self._db.execute(query, values)
        }

    def close(self) -> None:
        self._db.close()


def _written(ages: Ages) -> tuple[float, int, int, bytes]:
    """Those of an hour lie close together: the first bucket in use, and how many fell into it and each that follows."""
    if not ages.buckets:
        return ages.most, ages.unknown, 0, b""
    first, last = min(ages.buckets), max(ages.buckets)
    counts = [ages.buckets.get(bucket, 0) for bucket in range(first, last + 1)]
    return ages.most, ages.unknown, first, struct.pack(f"<{len(counts)}I", *counts)


def _buckets(first: int, counts: bytes) -> dict[int, int]:
    found = struct.unpack(f"<{len(counts) // _SIZE}I", counts)
    return {bucket: count for bucket, count in enumerate(found, first) if count}


def _bytes(number: int) -> bytes:
    return number.to_bytes(-(-number.bit_length() // _BITS) * _SIZE, "little")
