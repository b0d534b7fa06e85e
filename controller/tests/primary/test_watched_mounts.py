"""What is mounted after lsyncd's start: nobody vouches for it, and lsyncd starts anew."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from disks import command, loop_device, mounted, need_root
from test_lsyncd import Lsyncd

from vcrecovery.primary import lasting_mounts as lasting
from vcrecovery.primary import watched_mounts as module
from vcrecovery.primary.heartbeat import beat
from vcrecovery.primary.mounts import OWN, Mount, read_mounts
from vcrecovery.primary.programs import ProgramError
from vcrecovery.primary.sent_mounts import note_path
from vcrecovery.primary.watched_mounts import WatchedMounts
from vcrecovery_lab.pair.waiting import wait_until

TOP = "22 1 254:1 / / rw - ext4 /dev/vda1 rw\n"
AUTOMOUNT = "23 22 0:9 / {tree}/srv rw - autofs systemd-1 rw,direct\n"
DISK = "30 22 254:17 / {tree}/srv rw - ext4 /dev/vdb1 rw\n"
OTHER = "31 22 254:18 / {tree}/other rw - xfs /dev/vdc rw\n"
LAYER = "40 22 0:40 / {tree}/layer rw - overlay overlay rw\n"


class Watched:
    """A heartbeat's view, with mounts as a test writes them and a clock that it sets."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pair = Lsyncd(folder)
        Path(self.pair.lists["rsync-filter"]).write_text("H /hidden\n")
        self.mountinfo = folder / "mountinfo"
        monkeypatch.setattr(lasting, "MOUNTS", str(self.mountinfo))
        self.at, self.restarts, self.fails = 1000.0, 0, False
        self.said: list[str] = []
        self.watch = self.anew()
        self.mounts(TOP)
        self.starts()

    def anew(self) -> WatchedMounts:
        return WatchedMounts(
            self.pair.settings, self._restart, self.said.append, lambda: self.at, str(self.mountinfo) + ".none"
        )

    def _restart(self) -> None:
        self.restarts += 1
        if self.fails:
            raise ProgramError("no bus")

    def mounts(self, *lines: str) -> None:
        self.mountinfo.write_text("".join(lines).format(tree=self.pair.tree))

    def starts(self) -> None:
        """As lsyncd does, once systemd has made its mark."""
        new = self.pair.run_dir / "lsyncd/mounts.new"
        new.write_text(self.mountinfo.read_text())
        new.rename(self.pair.run_dir / "lsyncd/mounts")
        self.starting.unlink(missing_ok=True)

    def after(self, seconds: float) -> tuple[bool, int]:
        """Whether there is a mark, and how often lsyncd was told to start anew."""
        self.at += seconds
        self.watch.look()
        return self.starting.exists(), self.restarts

    @property
    def starting(self) -> Path:
        return self.pair.run_dir / "starting"

    @property
    def due(self) -> Path:
        return self.pair.run_dir / "due"


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(tmp_path, monkeypatch)


def test_marked_at_once_and_started_anew_when_it_is_quiet(watched: Watched) -> None:
    watched.after(0)
    assert watched.after(20) == (False, 0)
    watched.mounts(TOP, DISK)
    assert watched.after(0) == (True, 0)
    watched.mounts(TOP, DISK, OTHER)
    assert watched.after(1.5) == (True, 0)
    assert watched.after(1.5) == (True, 0)
    assert watched.after(1) == (True, 1)
    assert watched.after(29) == (True, 1)
    watched.fails = True
    assert watched.after(2) == (True, 2)
    assert watched.said[-1] == "lsyncd does not start anew: no bus"
    watched.starts()
    assert watched.after(100) == (False, 2)


def test_lsyncd_gets_time_to_start(watched: Watched) -> None:
    watched.after(0)
    watched.mounts(TOP, DISK)
    assert watched.after(7) == (True, 0)
    assert watched.after(4) == (True, 1)


def test_a_mark_that_lsyncds_start_takes_away_is_made_again(watched: Watched) -> None:
    watched.after(0)
    watched.mounts(TOP, DISK)
    watched.after(0)
    watched.starting.unlink()
    watched.mounts(TOP)
    assert watched.after(0.2) == (True, 0)


@pytest.mark.parametrize(
    ("before", "after", "differs"),
    [
        ((DISK,), (DISK, LAYER), False),
        ((DISK,), (DISK.replace("/srv", "/hidden/srv"),), True),
        ((), (DISK.replace("/srv", "/hidden/srv"),), False),
        ((DISK,), (DISK.replace("- ext4 /dev/vdb1 rw", "- ext4 /dev/vdb1 ro"),), False),
        # Unmounted and mounted again between two looks, with the same number; one of another disk.
        ((DISK, OTHER), (OTHER, DISK), True),
        ((DISK,), (DISK.replace("254:17", "254:20"),), True),
        # An automounter's, with nobody who looks; and with somebody who does.
        ((AUTOMOUNT, DISK), (AUTOMOUNT,), False),
        ((AUTOMOUNT,), (AUTOMOUNT, DISK), True),
    ],
)
def test_what_differs(watched: Watched, before: tuple[str, ...], after: tuple[str, ...], differs: bool) -> None:
    watched.mounts(TOP, *before)
    watched.starts()
    assert watched.after(0) == (False, 0)
    watched.mounts(TOP, *after)
    assert watched.after(0)[0] is differs


def test_what_an_automounter_mounts_again_differs(watched: Watched) -> None:
    watched.mounts(TOP, AUTOMOUNT, DISK)
    watched.starts()
    watched.after(0)
    watched.mounts(TOP, AUTOMOUNT)
    assert watched.after(1) == (False, 0)
    watched.mounts(TOP, AUTOMOUNT, DISK)
    assert watched.after(1) == (True, 0)


def test_without_what_was_sent_lsyncd_stays_and_a_comparison_says_so(watched: Watched) -> None:
    """Anew, it would watch the folder below, and send what a service begins there over the last good copy."""
    note = Path(note_path(watched.pair.settings))
    note.write_text(f"{watched.pair.tree}/srv\n")
    watched.mounts(TOP, DISK)
    watched.starts()
    watched.after(0)
    watched.after(20)
    watched.mounts(TOP)
    assert watched.after(1) == (True, 0)
    assert not watched.due.exists()
    assert watched.after(2) == (True, 0)
    assert watched.due.exists()
    watched.due.unlink()
    assert watched.after(600) == (True, 0)
    # Which is tried again by systemd.
    assert not watched.due.exists()
    note.write_text("")
    assert watched.after(3) == (True, 1)


def test_another_heartbeat_goes_on(watched: Watched) -> None:
    watched.after(20)
    watched.mounts(TOP, DISK)
    watched.after(0)
    watched.mounts(TOP)
    watched.watch = watched.anew()
    assert watched.after(0) == (True, 0)
    assert watched.after(11) == (True, 1)
    # One of systemd's, as at any start, is lsyncd's to take away.
    watched.starting.touch()
    os.utime(watched.starting, ns=(0, 0))
    watched.watch = watched.anew()
    assert watched.after(0) == (True, 1)
    assert watched.after(600) == (True, 1)


def test_an_lsyncd_of_an_older_version_has_left_nothing_to_compare(watched: Watched) -> None:
    (watched.pair.run_dir / "lsyncd/mounts").unlink()
    watched.mounts(TOP, DISK)
    assert watched.after(600) == (False, 0)


def test_an_lsyncd_that_starts_at_this_very_moment_is_looked_at_again(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    noted = str(watched.pair.run_dir / "lsyncd/mounts")

    def taken_away(place: str) -> dict[int, Mount]:
        if place == noted:
            raise FileNotFoundError(place)
        return read_mounts(place)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(module, "read_mounts", taken_away)
        assert watched.after(0) == (False, 0)
    assert watched.after(0) == (False, 0)
    watched.mounts(TOP, DISK)
    assert watched.after(20) == (True, 0)


class EndedError(Exception):
    """The end of a heartbeat."""


@contextmanager
def beating(pair: Lsyncd, watch: WatchedMounts) -> Iterator[None]:
    ended = threading.Event()

    def sleep(seconds: float) -> None:
        if ended.wait(seconds):
            raise EndedError

    def go() -> None:
        with pytest.raises(EndedError):
            beat(pair.settings.state_dir, pair.settings.run_dir, 1.0, sleep=sleep, look=watch.look)

    thread = threading.Thread(target=go)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.fixture
def disk() -> Iterator[str]:
    need_root()
    with loop_device(8) as device:
        command("mkfs.ext4", "-q", device)
        yield device


def test_what_is_mounted_later_is_watched_before_anybody_vouches_for_it(
    tmp_path: Path, disk: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(lasting, "MOUNTS", OWN)
    monkeypatch.setattr(module, "_STARTED", 0.0)
    monkeypatch.setattr(module, "_QUIET", 0.2)
    pair, asked = Lsyncd(tmp_path), threading.Event()
    state = pair.tree / "var/lib/vcrecovery"
    data = pair.tree / "srv/data"
    for folder in (state, data):
        folder.mkdir(parents=True)
    pair.settings = pair.settings._replace(state_dir=str(state))

    def vouched() -> float:
        try:
            found = json.loads((pair.standby / "var/lib/vcrecovery/heartbeat").read_text())
        except FileNotFoundError:
            return 0.0
        return float(found["at"] if found["good_until"] is None else found["good_until"])

    def heard() -> float:
        return float(json.loads((pair.standby / "var/lib/vcrecovery/heartbeat").read_text())["at"])

    with beating(pair, WatchedMounts(pair.settings, asked.set, lambda _line: None)), pair.running():
        pair.reconcile()
        began = time.time()
        wait_until(lambda: vouched() > began, "a first heartbeat", 60)
        at = time.time()
        with mounted(disk, data):
            (data / "first").write_text("x")
            wait_until(asked.is_set, "that lsyncd is to start anew", 60)
            pair.reconcile()
            wait_until(lambda: heard() > at + 3, "heartbeats that vouch for nothing newer", 60)
            assert vouched() <= at
            assert (pair.standby / "srv/data/first").exists()
            # In its place, while the file system stays.
            start_anew(pair)
            pair.reconcile()
            (data / "second").write_text("x")
            at = time.time()
            wait_until(lambda: vouched() > at, "a heartbeat that vouches for it", 60)
            assert (pair.standby / "srv/data/second").exists()


def noted_at(pair: Lsyncd) -> int | None:
    """None while lsyncd starts."""
    try:
        return (pair.run_dir / "lsyncd/mounts").stat().st_mtime_ns
    except FileNotFoundError:
        return None


def start_anew(pair: Lsyncd) -> None:
    """It loads its configuration again, as after an overflow."""
    before = noted_at(pair)
    pid = subprocess.run(
        ["pgrep", "-f", str(pair.folder / "lsyncd.lua")], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    os.kill(int(pid), signal.SIGHUP)
    wait_until(lambda: noted_at(pair) not in (None, before), "its start", 60)
    wait_until(lambda: not (pair.run_dir / "starting").exists(), "its sign", 60)
