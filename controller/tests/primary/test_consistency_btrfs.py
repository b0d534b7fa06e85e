"""Syncs from snapshots of real btrfs file systems."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from disks import command, file_system, mounted, need_root
from lockstep import ahead, lockstep
from test_reconcile import Pair

from lab.waiting import wait_for
from vcrecovery.excludes.machine_specific import SNAPSHOT_PREFIX
from vcrecovery.primary.reconcile import ReconcileError
from vcrecovery.primary.settings import Consistency, Hook


class Primary(Pair):
    """A tree with a btrfs file system at `data`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, engine="periodic")
        self.data = self.tree / "data"
        self.data.mkdir()
        self.take("data")

    def take(self, *mounts: str, after: str | None = None) -> None:
        hook = Hook("true", after, 10) if after else None
        places = tuple(str(self.tree / path) for path in mounts)
        self.settings = self.settings._replace(consistency=Consistency("snapshot", places, hook))

    @property
    def left(self) -> list[Path]:
        """What no run may leave."""
        return [*self.data.glob(f"**/{SNAPSHOT_PREFIX}*"), *Path(self.settings.run_dir).glob("view")]


@pytest.fixture
def primary(tmp_path: Path) -> Iterator[Primary]:
    need_root()
    found = Primary(tmp_path)
    with file_system("btrfs", found.data, 256):
        yield found
        assert found.left == []


def test_a_snapshot_is_one_moment_and_a_plain_copy_is_not(primary: Primary) -> None:
    space = os.readlink("/proc/thread-self/ns/mnt")  # noqa: PTH115
    torn = False
    with lockstep(primary.data):
        for _ in range(4):
            primary.reconcile()
            assert ahead(primary.standby / "data") == 0
            assert primary.left == []
        settings, primary.settings = primary.settings, primary.settings._replace(consistency=Consistency())
        deadline = time.monotonic() + 120
        while not torn and time.monotonic() < deadline:
            (primary.data / "filler").write_bytes(os.urandom(20_000_000))
            primary.reconcile()
            torn = ahead(primary.standby / "data") > 0
        primary.settings = settings
    assert torn, "the writer did not write while the copy was made, so the test shows nothing"
    assert os.readlink("/proc/thread-self/ns/mnt") == space  # noqa: PTH115


def test_only_the_named_mounts_are_from_snapshots_all_others_are_live(primary: Primary) -> None:
    """What the second command writes has come after the snapshot."""
    command("btrfs", "subvolume", "create", primary.data / "nested")
    command("btrfs", "subvolume", "create", primary.data / "nested/deep")
    places = ["", "data", "data/nested", "data/nested/deep", "data/mount", "other", "data/with a\nbreak"]
    (primary.data / "with a\nbreak").mkdir()
    with (
        mounted("tmpfs", primary.data / "mount", "-t", "tmpfs"),
        mounted("tmpfs", primary.tree / "other", "-t", "tmpfs"),
        mounted("tmpfs", primary.data / "with a\nbreak", "-t", "tmpfs"),
    ):
        for mounts, old in ((["data"], ["data"]), (["data", "data/nested"], ["data", "data/nested"])):
            for place in places:
                (primary.tree / place / "file").write_text("old")
            files = " ".join(f"'{primary.tree / place}/file'" for place in places)
            primary.take(*mounts, after=f"for f in {files}; do printf newer >$f; done".replace("$f", '"$f"'))
            primary.reconcile()
            seen = {place: (primary.standby / place / "file").read_text() for place in places}
            assert seen == {place: "old" if place in old else "newer" for place in places}


def test_the_tree_may_lie_in_the_snapshot(primary: Primary) -> None:
    inner = primary.data / "srv/tree"
    inner.mkdir(parents=True)
    (inner / "file").write_text("old")
    (primary.data / "outside").write_text("not synced")
    primary.take("data", after=f"printf new >{inner}/file")
    primary.settings = primary.settings._replace(source=str(inner))
    primary.reconcile()
    assert primary.files(primary.standby) == {b"file": b"old"}
    primary.take("data", after=f"printf new >{inner}/file")
    primary.settings = primary.settings._replace(source=str(primary.data))
    primary.reconcile()
    assert set(primary.files(primary.standby)) == {b"srv/tree/file", b"outside"}


def test_a_killed_run_leaves_a_snapshot_which_the_next_one_removes(primary: Primary) -> None:
    with started(primary) as child:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait(timeout=20)
    assert primary.left
    assert primary.marks.any
    primary.settings = primary.settings._replace(bandwidth=None)
    primary.reconcile()
    assert primary.left == []
    assert not primary.marks.any


def test_a_stopped_run_leaves_nothing(primary: Primary) -> None:
    with started(primary) as child:
        child.terminate()
        assert child.wait(timeout=20) == -signal.SIGTERM
    assert primary.left == []
    assert primary.marks.any


@contextmanager
def started(primary: Primary) -> Iterator[subprocess.Popen[bytes]]:
    """A run of its own that has made its snapshot and is sending."""
    (primary.data / "big").write_bytes(os.urandom(30_000_000))
    primary.settings = primary.settings._replace(bandwidth=1024)
    with subprocess.Popen(primary.command(), start_new_session=True) as child:
        try:
            wait_for(lambda: any(primary.standby.glob("data/.big.*")), "the transfer")
            assert primary.left
            yield child
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)


def test_a_full_file_system(tmp_path: Path) -> None:
    need_root()
    primary = Primary(tmp_path)
    with file_system("btrfs", primary.data, 114, make=["-d", "single", "-m", "single"]):
        with pytest.raises(OSError, match="No space left"):
            fill(primary.data)
        os.sync()
        after = tmp_path / "after"
        primary.take("data", after=f"touch {after}")
        with pytest.raises(ReconcileError, match=r"no snapshot of .*/data .*No space left.*make room there"):
            primary.reconcile()
        assert primary.marks.any
        assert after.exists()
        assert primary.left == []


def fill(folder: Path) -> None:
    for size in (20_000_000, 1_000_000, 0):
        for number in range(100):
            (folder / f"{size}-{number}").write_bytes(bytes(size))


@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_a_file_system_without_snapshots(tmp_path: Path, kind: str) -> None:
    need_root()
    primary = Primary(tmp_path)
    made = mounted("tmpfs", primary.data, "-t", kind) if kind == "tmpfs" else file_system(kind, primary.data, 16)
    with made, pytest.raises(ReconcileError, match=rf"/data has no snapshots \({kind} on .*choose consistency kind"):
        primary.reconcile()
    assert primary.marks.any


def test_mounts_that_are_none(primary: Primary) -> None:
    (primary.data / "folder").mkdir()
    for place, message in {
        "data/folder": r"folder is a folder on btrfs, no subvolume: list .*/data in",
        "elsewhere": r"elsewhere: No such file",
        "..": r"is no mount point: list |is no part of what is synced",
    }.items():
        primary.take(place)
        with pytest.raises(ReconcileError, match=message):
            primary.reconcile()
    primary.take("data", "/proc")
    with pytest.raises(ReconcileError, match=r"/proc is no part of what is synced \(.*: remove it"):
        primary.reconcile()
