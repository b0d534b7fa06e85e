"""Transactions of several threads that share an fsync: each on the disk when it ends, none harmed by another."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.waiting import wait_for
from vcrecovery.store.connection import Connection
from vcrecovery.store.group_commit import GroupCommit

#: Seconds after which a thread that should have come on is stuck.
LONG = 60.0


class CountingLock:
    """A lock that tells how many have asked for it."""

    def __init__(self) -> None:
        self.asked = 0
        self._counting = threading.Lock()
        self._lock = threading.RLock()

    def __enter__(self) -> bool:
        with self._counting:
            self.asked += 1
        return self._lock.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._lock.__exit__(*error)


class Table:
    def __init__(self, file: Path) -> None:
        self.lock = CountingLock()
        self.db = sqlite3.connect(file, isolation_level=None, check_same_thread=False, factory=Connection)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("PRAGMA foreign_keys=ON")
        self.db.execute("CREATE TABLE parent (id INTEGER PRIMARY KEY)")
        # Looked at by COMMIT, which is how a COMMIT is made to fail.
        self.db.execute("CREATE TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED)")
        self.commits: list[str] = []
        self.db.set_trace_callback(lambda said: self.commits.append(said) if said == "COMMIT" else None)
        self.group = GroupCommit(self.db, self.lock)  # type: ignore[arg-type]
        self.other = sqlite3.connect(file, check_same_thread=False, factory=Connection)

    def seen(self) -> list[int]:
        """What another process sees."""
        return [number for (number,) in self.other.execute("SELECT id FROM parent ORDER BY id")]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path / "some.db")


def in_threads(*works: Callable[[], None]) -> None:
    errors: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  it is raised below
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def two_together(table: Table, first: Callable[[], object], second: Callable[[], object]) -> None:
    """`second` asks for the lock before the body of `first` ends."""

    def one() -> None:
        with table.group.transaction():
            begun.set()
            wait_for(lambda: table.lock.asked >= 2, "the other one")
            first()

    def other() -> None:
        assert begun.wait(LONG)
        with table.group.transaction():
            second()

    begun = threading.Event()
    in_threads(one, other)


def test_what_has_ended_is_seen_by_others(table: Table) -> None:
    missing: list[int] = []

    def work(number: int) -> None:
        for turn in range(20):
            with table.group.transaction() as db:
                db.execute("INSERT INTO parent VALUES (?)", (number * 100 + turn,))
            with reading:
                if number * 100 + turn not in table.seen():
                    missing.append(number)

    reading = threading.Lock()
    in_threads(*(lambda number=number: work(number) for number in range(20)))
    assert not missing
    assert len(table.seen()) == 400


def test_those_that_come_at_the_same_time_are_written_at_once(table: Table) -> None:
    two_together(
        table,
        lambda: table.db.execute("INSERT INTO parent VALUES (1)"),
        lambda: table.db.execute("INSERT INTO parent VALUES (2)"),
    )
    assert table.seen() == [1, 2]
    assert table.commits == ["COMMIT"]


@pytest.mark.parametrize("bad", ["first", "second"])
def test_one_that_fails_takes_no_other_along(table: Table, bad: str) -> None:
    def insert(number: int, which: str) -> Callable[[], None]:
        def act() -> None:
            table.db.execute("INSERT INTO parent VALUES (?)", (number,))
            if which == bad:
                raise ZeroDivisionError

        return act

    with pytest.raises(ZeroDivisionError):
        two_together(table, insert(1, "first"), insert(2, "second"))
    assert table.seen() == ([2] if bad == "first" else [1])


@pytest.mark.parametrize(
    "bad",
    [
        # Only the COMMIT fails; SQLite takes all of it back itself, as where the disk is full.
        "INSERT INTO child VALUES (7)",
        "INSERT OR ROLLBACK INTO parent VALUES (1)",
    ],
)
def test_what_cannot_be_written_is_told_to_all_and_the_next_goes_on(table: Table, bad: str) -> None:
    told: list[str] = []

    def one() -> None:
        try:
            with table.group.transaction() as db:
                begun.set()
                wait_for(lambda: table.lock.asked >= 2, "the other one")
                db.execute("INSERT INTO parent VALUES (1)")
        except sqlite3.Error as error:
            told.append(str(error))

    def other() -> None:
        assert begun.wait(LONG)
        try:
            with table.group.transaction() as db:
                db.execute(bad)
        except sqlite3.Error as error:
            told.append(str(error))

    begun = threading.Event()
    in_threads(one, other)
    assert len(told) == 2
    assert table.seen() == []
    with table.group.transaction() as db:
        db.execute("INSERT INTO parent VALUES (3)")
    assert table.seen() == [3]


def test_one_that_is_interrupted_in_its_commit_leaves_nothing_open(table: Table) -> None:
    class Interrupted:
        """The connection, whose first COMMIT is interrupted."""

        def __init__(self) -> None:
            self.left = 1

        def execute(self, statement: str, *values: Any) -> Any:
            if statement == "COMMIT" and self.left:
                self.left = 0
                raise KeyboardInterrupt
            return table.db.execute(statement, *values)

        @property
        def in_transaction(self) -> bool:
            return table.db.in_transaction

    group = GroupCommit(Interrupted(), table.lock)  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt), group.transaction() as db:
        db.execute("INSERT INTO parent VALUES (1)")
    with group.transaction() as db:
        db.execute("INSERT INTO parent VALUES (2)")
    assert table.seen() == [2]
