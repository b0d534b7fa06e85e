"""Transactions of several threads on one SQLite connection, with one fsync for all that come at the same time.

A transaction still is on the disk when it ends. But while one is being written, others come; they are put together, and
the last of them commits for all. Each is a savepoint of its own, so that one that fails takes no other along.
Our own, since SQLite has no group commit, and a site that fails over would wait for hundreds of fsyncs.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

#: Seconds after which nobody waits any longer for others that were about to come.
PATIENCE = 0.02


@dataclass
class _Batch:
    """What is committed together. `error`: why none of it was written."""

    ended: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None


class GroupCommit:
    """`lock` is held by whoever uses the connection; reads may show what others are about to commit."""

    def __init__(self, db: sqlite3.Connection, lock: threading.RLock) -> None:
        self._db = db
        self._lock = lock
        self._counting = threading.Lock()
        self._coming = 0
        self._batch: _Batch | None = None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Everything in it or nothing; on the disk when it ends. Raises sqlite3.Error."""
        with self._counting:
            self._coming += 1
        with self._lock:
            with self._counting:
                self._coming -= 1
            if self._batch is None:
                self._db.execute("BEGIN IMMEDIATE")
                self._batch = _Batch()
            batch = self._batch
            try:
                self._db.execute("SAVEPOINT one")
                yield self._db
                self._db.execute("RELEASE one")
            except BaseException as error:
                self._take_back(batch, error)
                raise
            finally:
                if not self._coming:
                    self._commit(batch)
        if not batch.ended.wait(PATIENCE):
            with self._lock:
                self._commit(batch)
        if batch.error is not None:
            raise sqlite3.OperationalError(str(batch.error)) from batch.error

    def _take_back(self, batch: _Batch, error: BaseException) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._db.execute("ROLLBACK TO one")
            self._db.execute("RELEASE one")
            return
        # SQLite has taken back all of them itself, as where the disk is full.
        self._roll_back()
        self._end(batch, error)

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def _commit(self, batch: _Batch) -> None:
        if batch.ended.is_set():
            return
        error: BaseException | None = None
        try:
            self._db.execute("COMMIT")
        except BaseException as failed:
            error = failed
            self._roll_back()
            if not isinstance(failed, sqlite3.Error):
                raise
        finally:
            self._end(batch, error)

    def _end(self, batch: _Batch, error: BaseException | None) -> None:
        self._batch, batch.error = None, error
        batch.ended.set()
