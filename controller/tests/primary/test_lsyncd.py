"""lsyncd with the configuration that the role renders, into a folder in the place of the receiver."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jinja2
import pytest
from test_reconcile import HOSTILE, Pair

from vcrecovery.primary.heartbeat import queue_length
from vcrecovery_lab.pair.waiting import wait_until

CHECKOUT = Path(__file__).resolve().parents[3]


class Lsyncd(Pair):
    """A pair with lsyncd between."""

    open_files = "send"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder = folder
        self.run_dir = Path(self.settings.run_dir)
        (self.run_dir / "lsyncd").mkdir()
        Path(self.lists["lsyncd"]).write_text("/left out\n")
        # Both are there before anything runs, as the role makes them.
        Path(self.lists["rsync-filter"]).touch()

    def configure(self, rsync: str = "/usr/bin/rsync") -> Path:
        environment = jinja2.Environment(undefined=jinja2.StrictUndefined)  # noqa: S701  it is Lua, not HTML
        environment.filters["to_json"] = lambda text: f'"{text}"'
        template = environment.from_string((CHECKOUT / "roles/primary/templates/lsyncd.lua.j2").read_text())
        text = template.render(
            ansible_managed="a test", primary_run_dir=str(self.run_dir), primary_source_dir=str(self.tree),
            primary_delay=1, primary_config_dir=str(self.folder), primary_bandwidth=None,
            primary_open_files=self.open_files,
        )  # fmt: skip
        file = self.folder / "lsyncd.lua"
        text = text.replace('"receiver:/"', f'"{self.standby}/"').replace("/usr/bin/rsync", rsync)
        # The test may have a mount namespace of its own.
        file.write_text(text.replace("/proc/1/mountinfo", "/proc/self/mountinfo"))
        return file

    @contextmanager
    def running(self, rsync: str = "/usr/bin/rsync") -> Iterator[None]:
        (self.run_dir / "starting").touch()
        with (self.folder / "log").open("a") as log:
            process = subprocess.Popen(["lsyncd", str(self.configure(rsync))], stdout=log, stderr=log)
        try:
            wait_until((self.run_dir / "due").exists, f"lsyncd's sign ({self.folder}/log)", 120)
            yield
            assert process.poll() is None, (self.folder / "log").read_text()
        finally:
            process.terminate()
            process.wait(timeout=60)


@pytest.fixture
def pair(tmp_path: Path) -> Lsyncd:
    return Lsyncd(tmp_path)


def test_the_start_asks_for_a_reconcile(pair: Lsyncd) -> None:
    with pair.running():
        assert not (pair.run_dir / "starting").exists()
        pair.reconcile()
        assert not pair.marks.any


def test_names_that_lsyncd_itself_gets_wrong_arrive_and_go(pair: Lsyncd) -> None:
    with pair.running():
        for name in HOSTILE:
            folder = os.fsencode(pair.tree) + b"/dir " + name
            os.mkdir(folder)  # noqa: PTH102
            Path(os.fsdecode(folder + b"/" + name)).write_bytes(name)
        wait_until(lambda: pair.files(pair.standby) == pair.files(pair.tree), "the files", 120)
        for name in HOSTILE[::2]:
            shutil.rmtree(os.fsencode(pair.tree) + b"/dir " + name)
        (pair.tree / "moved").mkdir()
        for name in HOSTILE[1::2]:
            os.rename(os.fsencode(pair.tree) + b"/dir " + name, os.fsencode(pair.tree) + b"/moved/" + name)  # noqa: PTH104
        wait_until(lambda: pair.files(pair.standby) == pair.files(pair.tree), "the removals and moves", 120)
        wait_until(lambda: len(list(pair.standby.iterdir())) == 1, "the folders' removal", 120)


def test_what_is_on_the_list_is_not_sent(pair: Lsyncd) -> None:
    with pair.running():
        (pair.tree / "left out").mkdir()
        (pair.tree / "left out/file").write_text("x")
        # A change of a folder's own mode must not send what is in it.
        pair.tree.chmod(0o711)
        (pair.tree / "sent").write_text("x")
        wait_until((pair.standby / "sent").exists, "the file beside it", 120)
        assert not (pair.standby / "left out").exists()


def test_a_change_that_is_sent_wakes_nobody_who_waits_for_a_mark(pair: Lsyncd) -> None:
    """systemd looks at the paths of its units whenever something is made or renamed beside them."""
    with pair.running():
        (pair.tree / "first").touch()
        wait_until((pair.run_dir / "lsyncd/sent").exists, "the first transfer's end", 120)
        before = pair.run_dir.stat().st_mtime_ns
        told = (pair.run_dir / "lsyncd/sent").stat().st_ino
        (pair.tree / "second").touch()
        wait_until(lambda: (pair.run_dir / "lsyncd/sent").stat().st_ino != told, "the next one's", 120)
        assert pair.run_dir.stat().st_mtime_ns == before


def test_a_transfer_that_is_not_whole_is_marked(pair: Lsyncd) -> None:
    failing = pair.folder / "rsync"
    failing.write_text('#!/bin/sh\n/usr/bin/rsync "$@"\nexit 23\n')
    failing.chmod(0o755)
    with pair.running(str(failing)):
        (pair.run_dir / "due").unlink()
        (pair.tree / "file").write_text("x")
        wait_until((pair.run_dir / "due").exists, "the mark", 120)


def test_a_standby_that_is_away_makes_a_queue_and_then_gets_it(pair: Lsyncd) -> None:
    down = pair.folder / "down"
    gate = pair.folder / "rsync"
    gate.write_text(f'#!/bin/sh\ntest -e {down} && exit 255\nexec /usr/bin/rsync "$@"\n')
    gate.chmod(0o755)
    with pair.running(str(gate)):
        down.touch()
        for number in range(50):
            (pair.tree / f"file {number}").write_text(str(number))
        status = str(pair.run_dir / "lsyncd/status")
        wait_until(lambda: (queue_length(status) or 0) >= 50, "the queue", 120)
        down.unlink()
        wait_until(lambda: pair.files(pair.standby) == pair.files(pair.tree), "the files", 120)
        wait_until(lambda: queue_length(status) == 0, "an empty queue", 120)


def test_many_files_at_once(pair: Lsyncd) -> None:
    with pair.running():
        for folder in range(50):
            (pair.tree / f"d{folder}").mkdir()
            for number in range(100):
                (pair.tree / f"d{folder}/f{number}").write_text(str(number))
        wait_until(lambda: pair.files(pair.standby) == pair.files(pair.tree), "all files", 180)


def test_only_the_heartbeat_makes_probes(pair: Lsyncd) -> None:
    """Anybody in the VM may call a file like one."""
    with pair.running():
        (pair.tree / "home/vcrecovery").mkdir(parents=True)
        (pair.tree / "home/vcrecovery/probe-999999999999999").touch()
        wait_until((pair.run_dir / "lsyncd/sent").exists, "the transfer's end", 60)
        assert not (pair.run_dir / "lsyncd/sent").read_text()
        (pair.tree / "var/lib/vcrecovery").mkdir(parents=True)
        (pair.tree / "var/lib/vcrecovery/probe-000000000000001").touch()
        wait_until((pair.run_dir / "lsyncd/sent").read_text, "that of the heartbeat's", 60)


def test_a_file_that_stays_open_is_sent(pair: Lsyncd) -> None:
    with pair.running(), (pair.tree / "log").open("w", buffering=1) as log:
        pair.reconcile()
        for line in ("one\n", "two\n", "three\n"):
            log.write(line)
            wait_until(lambda: pair.files(pair.standby) == pair.files(pair.tree), "the line", 30)


def test_it_is_left_until_it_is_closed_where_the_plan_says_so(pair: Lsyncd) -> None:
    pair.open_files = "when-closed"
    with pair.running():
        with (pair.tree / "log").open("w", buffering=1) as log:
            pair.reconcile()
            wait_until(
                (pair.run_dir / "lsyncd/sent").exists, "the end of the transfer that its beginning is sent for", 60
            )
            log.write("a line\n")
            (pair.tree / "later").touch()
            wait_until((pair.standby / "later").exists, "a later file", 60)
            assert not (pair.standby / "log").read_text()
        wait_until((pair.standby / "log").read_text, "what was written", 60)


def test_a_file_that_never_rests_leaves_both_machines_free_for_most_of_the_time(pair: Lsyncd) -> None:
    slow = pair.folder / "rsync"
    slow.write_text(f'#!/bin/sh\necho >>{pair.folder}/batches\nsleep 0.8\nexec /usr/bin/rsync "$@"\n')
    slow.chmod(0o755)
    with pair.running(str(slow)):
        with (pair.tree / "log").open("w", buffering=1) as log:
            end = time.monotonic() + 15
            while time.monotonic() < end:
                log.write("a line\n")
                time.sleep(0.05)
        # A batch a second, if it did not rest.
        assert 4 <= len((pair.folder / "batches").read_text()) <= 8
        wait_until(lambda: pair.files(pair.standby) == pair.files(pair.tree), "all of it", 60)
