"""How old each standby was, hour by hour, for the reports.

In a file of its own beside the journal: SQLite has one writer per file, and a failover's step must not wait for
figures, nor for their way to the disk. Whoever loses or removes this file loses a curve in a report.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from vcrecovery.core.ages import NO_AGES, Ages, added
from vcrecovery.errors import ExternalError

NAME = "freshness.db"
HOUR = 3600
#: Seconds for which an hour is remembered: a year can be compared with the one before.
KEPT = 400 * 86400
T = TypeVar("T")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS age (
    hour INTEGER NOT NULL, service TEXT NOT NULL,
    most REAL NOT NULL, unknown INTEGER NOT NULL, buckets TEXT NOT NULL,
    PRIMARY KEY (hour, service)
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
            self._db = sqlite3.connect(self._path, timeout=10, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=WAL")
            # A power cut may take the last minutes: no decision rests on them.
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(_SCHEMA)

    @contextmanager
    def _understood(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, ValueError) as error:
            raise ExternalError(
                f"{self._path} cannot be used: {error}",
                "it only holds how fresh standbys were: free some space, correct its rights, or move it away",
            ) from error

    def add(self, found: Mapping[tuple[str, int], Ages], now: float) -> None:
        """To what is there, by service and hour; what is too old goes."""
        with self._one_at_a_time, self._understood():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                for (service, hour), ages in found.items():
                    known = self._read("hour = ? AND service = ?", hour, service).get((service, hour), NO_AGES)
                    row = (hour, service, *_written(added((known, ages))))
                    self._db.execute("INSERT OR REPLACE INTO age VALUES (?, ?, ?, ?, ?)", row)
                self._db.execute("DELETE FROM age WHERE hour < ?", (hour_of(now - KEPT),))
                self._db.execute("COMMIT")
            except BaseException:
                self._db.execute("ROLLBACK")
                raise

    def since(self, at: float) -> dict[tuple[str, int], Ages]:
        """By service and hour, from the hour of that time on."""
        with self._one_at_a_time, self._understood():
            return self._read("hour >= ?", hour_of(at))

    def summed(self, since: float, part_of: Callable[[int], T]) -> dict[tuple[str, T], Ages]:
        """By service and by what `part_of` makes of an hour, such as its day: a year has too many hours to keep all."""
        buckets: dict[tuple[str, T], dict[int, int]] = {}
        most: dict[tuple[str, T], float] = {}
        unknown: dict[tuple[str, T], int] = {}
        query = "SELECT service, hour, most, unknown, buckets FROM age WHERE hour >= ? ORDER BY hour"
        part, of_hour = None, None
        with self._one_at_a_time, self._understood():
            for service, hour, greatest, untold, said in self._db.execute(query, (hour_of(since),)):
                if part is None or hour != of_hour:
                    part, of_hour = part_of(hour), hour
                key = (service, part)
                if key not in buckets:
                    buckets[key], most[key], unknown[key] = {}, 0.0, 0
                counts = buckets[key]
                for bucket, count in _pairs(said):
                    counts[bucket] = counts.get(bucket, 0) + count
                most[key] = max(most[key], greatest)
                unknown[key] += untold
        return {key: Ages(counts, most[key], unknown[key]) for key, counts in buckets.items()}

    def _read(self, where: str, *values: object) -> dict[tuple[str, int], Ages]:
        query = f"SELECT service, hour, most, unknown, buckets FROM age WHERE {where}"  # noqa: S608
        return {
            (service, hour): Ages(dict(_pairs(buckets)), most, unknown)
            for service, hour, most, unknown, buckets in self._db.execute(query, values)
        }

    def close(self) -> None:
        self._db.close()


def _written(ages: Ages) -> tuple[float, int, str]:
    """Those of an hour lie close together: the first bucket in use, and how many fell into it and each that follows.

    `12:340,20,,1`
    """
    used = sorted(ages.buckets)
    counts = [ages.buckets.get(bucket, 0) for bucket in range(used[0], used[-1] + 1)] if used else []
    said = f"{used[0]}:{','.join(str(count or '') for count in counts)}" if used else ""
    return ages.most, ages.unknown, said


def _pairs(said: str) -> list[tuple[int, int]]:
    if not said:
        return []
    first, _, counts = said.partition(":")
    return [(n, int(count)) for n, count in enumerate(counts.split(","), int(first)) if count]
