"""The comparison of the whole tree, with the real rsync, into a folder in the place of the receiver."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import vcrecovery.primary.reconcile as module
import vcrecovery.primary.transfer as transfer
from lab.waiting import wait_for
from vcrecovery.excludes.selection import Selection
from vcrecovery.primary.marks import Marks
from vcrecovery.primary.programs import run
from vcrecovery.primary.reconcile import ReconcileError, reconcile
from vcrecovery.primary.settings import Consistency, Hook, Settings

HOSTILE = [
    b"a b",
    b"close]",
    b"[x]",
    b"st*r",
    b"wh?t",
    b"back\\sl\\*sh",
    b"new\nline",
    b"\xff\xfe",
    b"#x",
    b"- y",
    b"+ z",
    b"; w",
    b"\\#012",
]


class Pair:
    """A primary's tree, a standby's, and the settings between them."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        self.tree, self.standby = folder / "tree", folder / "standby"
        for path in (self.tree, self.standby, folder / "run", folder / "state"):
            path.mkdir()
        self.lists = {"lsyncd": str(folder / "exclude.lsyncd"), "rsync-filter": str(folder / "exclude.rsync-filter")}
        self.settings = Settings(
            selection=Selection(paths=("/srv/own",)), lists=self.lists, source=str(self.tree),
            ssh_config=str(folder / "ssh_config"), target=f"{self.standby}/",
            run_dir=str(folder / "run"), state_dir=str(folder / "state"),
        )._replace(**changes)  # fmt: skip
        self.marks = Marks(self.settings.run_dir)

    def reconcile(self) -> dict[str, Any]:
        return reconcile(self.settings, run, lambda: None, lambda line: None)

    def command(self) -> list[str]:
        """The same as a process of its own."""
        program = (
            "from vcrecovery.excludes.selection import Selection\nfrom vcrecovery.primary.programs import run\n"
            "from vcrecovery.primary.reconcile import reconcile\nfrom vcrecovery.primary.settings import *\n"
            f"reconcile({self.settings!r}, run, lambda: None, print)"
        )
        return [sys.executable, "-c", program]

    def files(self, top: Path) -> dict[bytes, Any]:
        found = {}
        for folder, _, names in os.walk(os.fsencode(top)):
            for name in names:
                path = os.path.join(folder, name)  # noqa: PTH118
                with contextlib.suppress(FileNotFoundError):  # a temporary file of an rsync that is at work
                    found[os.path.relpath(path, os.fsencode(top))] = Path(os.fsdecode(path)).read_bytes()
        return found


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def test_everything_arrives_and_the_second_run_changes_nothing(pair: Pair) -> None:
    for name in HOSTILE:
        folder = os.fsencode(pair.tree) + b"/dir " + name
        os.mkdir(folder)  # noqa: PTH102
        Path(os.fsdecode(folder + b"/" + name)).write_bytes(name)
    (pair.standby / "gone").write_text("not on the primary")
    first = pair.reconcile()
    assert pair.files(pair.standby) == pair.files(pair.tree)
    assert (first["files"], first["error"]) == (len(HOSTILE), None)
    again = pair.reconcile()
    assert (again["changes"], again["files"], again["bytes"]) == (0, 0, 0)
    assert not pair.marks.any


def test_hidden_paths_leave_no_old_copies(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    for top in (pair.tree, pair.standby):
        for path in ("etc/hostname", "srv/own/data", "boot/vmlinuz", "home/file"):
            (top / path).parent.mkdir(parents=True, exist_ok=True)
            (top / path).write_text(top.name)
    monkeypatch.setattr(module, "_refreshed", lambda settings, tell: None)
    Path(pair.lists["rsync-filter"]).write_text("- /etc/hostname\n- /srv/own\nH /boot/\n")
    pair.reconcile()
    assert (pair.standby / "etc/hostname").read_text() == "standby"
    assert (pair.standby / "srv/own/data").read_text() == "standby"
    assert (pair.standby / "home/file").read_text() == "tree"
    assert not (pair.standby / "boot").exists()


def test_what_rsync_cannot_send_is_named_and_marked(pair: Pair) -> None:
    (pair.tree / "fine").write_text("x")
    # rsync cannot put a file where a folder is that is not empty and protected.
    (pair.standby / "srv/own/deep").mkdir(parents=True)
    (pair.tree / "srv").write_text("a file now")
    with pytest.raises(ReconcileError, match="srv"):
        pair.reconcile()
    assert pair.marks.any
    assert (pair.standby / "fine").read_text() == "x"
    report = json.loads((Path(pair.settings.state_dir) / "reconcile.json").read_text())
    assert "srv" in report["error"]
    (pair.tree / "srv").unlink()
    pair.reconcile()
    assert not pair.marks.any


def test_a_mark_that_is_made_meanwhile_stays(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    due = Path(pair.settings.run_dir) / "due"
    due.touch()
    monkeypatch.setattr(module, "_refreshed", lambda settings, tell: due.touch())
    Path(pair.lists["rsync-filter"]).touch()
    pair.reconcile()
    assert due.exists()


def test_what_changes_during_the_first_pass_is_sent_again(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first pass overwrote or deleted something newer, as it can while lsyncd sends beside it."""
    (pair.tree / "old").write_text("one")
    whole = transfer.whole_tree

    def interfered(*arguments: Any) -> Any:
        done = whole(*arguments)
        (pair.tree / "old").write_text("newer")
        (pair.standby / "old").unlink()
        return done

    monkeypatch.setattr(module, "whole_tree", interfered)
    pair.reconcile()
    assert (pair.standby / "old").read_text() == "newer"


def test_a_second_change_within_a_second_and_of_the_same_size_is_sent(pair: Pair) -> None:
    file = pair.tree / "file"
    file.write_text("one")
    os.utime(file, ns=(0, 10**18))
    pair.reconcile()
    file.write_text("two")
    os.utime(file, ns=(0, 10**18 + 1000))
    pair.reconcile()
    assert (pair.standby / "file").read_text() == "two"


def test_killed_in_the_middle_of_a_large_file(tmp_path: Path) -> None:
    pair = Pair(tmp_path, bandwidth=2048)
    big = pair.tree / "big"
    big.write_bytes(b"old" * 1000)
    pair.reconcile()
    big.write_bytes(os.urandom(30_000_000))
    child = subprocess.Popen(pair.command(), start_new_session=True)
    wait_for(lambda: any(pair.standby.glob(".big.*")), "the transfer")
    os.killpg(child.pid, signal.SIGKILL)
    child.wait(timeout=20)
    # The standby is whole and older, and that is known.
    assert big.stat().st_size > (pair.standby / "big").stat().st_size == 3000
    assert pair.marks.any
    pair.settings = pair.settings._replace(bandwidth=None)
    pair.reconcile()
    assert (pair.standby / "big").read_bytes() == big.read_bytes()
    assert not pair.marks.any
    # What the killed rsync left goes too.
    assert not any(pair.standby.glob(".big.*"))


def test_two_at_once_take_turns(pair: Pair) -> None:
    (pair.tree / "file").write_text("x")
    children = [subprocess.Popen(pair.command()) for _ in range(2)]
    assert [child.wait(timeout=60) for child in children] == [0, 0]
    assert pair.files(pair.standby) == pair.files(pair.tree)


def test_periodic_vouches_for_the_time_before_it_looked(tmp_path: Path) -> None:
    pair = Pair(tmp_path, engine="periodic", source=str(tmp_path / "tree"), state_dir=str(tmp_path / "tree/var/lib/v"))
    began = time.time()
    (pair.tree / "file").write_text("x")
    pair.reconcile()
    beat = json.loads((pair.standby / "var/lib/v/heartbeat").read_text())
    assert began - 0.001 <= beat["at"] <= time.time()  # it is rounded
    assert beat["good_until"] is None
    assert json.loads((pair.standby / "var/lib/v/reconcile.json").read_text())["error"] is None


def test_periodic_vouches_by_the_clock_as_it_is_in_the_end(tmp_path: Path) -> None:
    pair = Pair(tmp_path, engine="periodic", source=str(tmp_path / "tree"), state_dir=str(tmp_path / "tree/var/lib/v"))
    ticks = iter([100.0, 130.0])
    wall = iter([10_000.0, *[6_430.0] * 9])  # set back by an hour in a sync of 30 s
    reconcile(pair.settings, run, lambda: None, lambda line: None, lambda: next(wall), lambda: next(ticks))
    assert json.loads((pair.standby / "var/lib/v/heartbeat").read_text())["at"] == 6_400


def test_hooks_surround_the_transfer_and_the_second_runs_in_any_case(tmp_path: Path) -> None:
    log = tmp_path / "log"
    hook = Hook(f"echo before >> {log}; cat {tmp_path}/tree/file >> {log}", f"echo after >> {log}", 10)
    pair = Pair(tmp_path, engine="periodic", consistency=Consistency("hook", ("/",), hook))
    (pair.tree / "file").write_text("x\n")
    pair.reconcile()
    assert log.read_text() == "before\nx\nafter\n"
    (pair.tree / "file").unlink()
    with pytest.raises(ReconcileError, match="file: No such file"):
        pair.reconcile()
    assert log.read_text().endswith("before\nafter\n")
    assert (pair.standby / "file").exists()
    slow = Consistency("hook", ("/",), Hook("sleep 30", f"echo after >> {log}", 0.2))
    pair.settings = pair.settings._replace(consistency=slow)
    with pytest.raises(ReconcileError, match="has not ended within"):
        pair.reconcile()
