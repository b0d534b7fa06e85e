"""A database that is written to all the time, synced, killed, and started again on the standby's copy."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from disks import file_system
from test_reconcile import Pair

from vcrecovery.primary.settings import Consistency, Hook

from .mariadb import Server, Writer, fault, writing
from .waiting import wait_for

pytestmark = pytest.mark.lab
#: Plain copies, of which one at least is no use.
TRIES = 10
#: A copy holds more than so many.
ROWS = 50
#: KiB/s: a copy takes its time on a line, too.
BANDWIDTH = 20480


class Database(Pair):
    """A primary whose tree has a data folder on a file system of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, engine="periodic")
        self.mount = self.tree / "var/lib/mysql"
        self.mount.mkdir(parents=True)
        self.folder, self.server = folder, Server(self.mount / "data", folder / "server")
        self.server.work.mkdir()

    @property
    def copy(self) -> Path:
        return self.standby / "var/lib/mysql/data"

    def choose(self, kind: str, before: str = "", after: str = "true") -> None:
        hook = Hook(before, after, 30) if before else None
        self.settings = self.settings._replace(consistency=Consistency(kind, (str(self.mount),), hook))

    @contextmanager
    def written_to(self, kind: str) -> Iterator[Writer]:
        with file_system(kind, self.mount, 700), writing(self.server) as writer:
            wait_for(lambda: len(writer.committed) > ROWS, "the first rows")
            yield writer

    def sync(self, times: int) -> tuple[float, float]:
        """When the last of them began, and how long the longest of them took."""
        longest, began = 0.0, 0.0
        for _ in range(times):
            report = self.reconcile()
            began, longest = report["last_good"], max(longest, report["ended"] - report["began"])
            time.sleep(0.7)
        return began, longest

    def check(self, kind: str, writer: Writer, good: float, took: float, capsys: pytest.CaptureFixture[str]) -> None:
        """The copy starts, and holds every row that was committed before `good`."""
        tell(capsys, f"{kind}: {len(writer.committed)} commits; the longest wait for one "
             f"{writer.longest_wait() * 1000:.0f} ms; the longest sync {took * 1000:.0f} ms")  # fmt: skip
        assert writer.until(good) > ROWS
        assert fault(self.copy, self.folder / "second", writer.until(good)) is None


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path)


def test_from_a_snapshot(database: Database, capsys: pytest.CaptureFixture[str]) -> None:
    database.choose("snapshot")
    database.settings = database.settings._replace(bandwidth=BANDWIDTH)
    with database.written_to("btrfs") as writer:
        good, took = database.sync(4)
    database.check("snapshot (btrfs)", writer, good, took, capsys)


def test_while_the_file_system_is_frozen(database: Database, capsys: pytest.CaptureFixture[str]) -> None:
    database.choose("hook", f"fsfreeze --freeze {database.mount}", f"fsfreeze --unfreeze {database.mount}")
    with database.written_to("ext4") as writer:
        good, took = database.sync(3)
    database.check("hook (fsfreeze, ext4)", writer, good, took, capsys)


def test_a_plain_copy_is_no_use_before_long(database: Database, capsys: pytest.CaptureFixture[str]) -> None:
    """Else `plan check` would warn of `consistency: files` for nothing."""
    database.choose("files")
    database.settings = database.settings._replace(bandwidth=BANDWIDTH)
    found, tried = None, 0
    with database.written_to("ext4") as writer:
        while found is None and tried < TRIES:
            good, _ = database.sync(1)
            found, tried = fault(database.copy, database.folder / "second", writer.until(good)), tried + 1
    tell(capsys, f"files: {tried} plain copies; the last: {found}")
    assert found is not None


def tell(capsys: pytest.CaptureFixture[str], *lines: str) -> None:
    with capsys.disabled():
        print("", *(line[:200] for line in lines), sep="\n  ")  # noqa: T201
