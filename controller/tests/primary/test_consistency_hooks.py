"""The operator's commands around a sync."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from test_reconcile import Pair

from lab.waiting import wait_for
from vcrecovery.primary.hooks import HELD, between, release_what_is_held
from vcrecovery.primary.programs import ProgramError
from vcrecovery.primary.reconcile import ReconcileError
from vcrecovery.primary.settings import Consistency, Hook


def alive(pid_file: Path) -> bool:
    try:
        state = Path(f"/proc/{pid_file.read_text().strip()}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_a_command_that_is_too_slow_goes_with_all_it_has_started(tmp_path: Path) -> None:
    pid, after = tmp_path / "pid", tmp_path / "after"
    hook = Hook(f"sleep 60 & echo $! >{pid}; echo still waiting; trap '' TERM; wait", f"touch {after}", 3)
    with (
        pytest.raises(ProgramError, match=r"`before` has not ended within 3 s, and said: still waiting"),
        between(hook, str(tmp_path)),
    ):
        pytest.fail("it goes on")
    wait_for(lambda: not alive(pid), "its end")
    assert after.exists()
    assert not (tmp_path / HELD).exists()


def test_what_it_leaves_in_the_background_lives_until_the_second_one_ends_it(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    began = time.monotonic()
    with between(Hook(f"sleep 600 & echo $! >{pid}", f"kill $(cat {pid})", 60), str(tmp_path)):
        assert alive(pid)
    wait_for(lambda: not alive(pid), "its end")
    assert time.monotonic() - began < 30


def test_the_error_is_what_it_said_last(tmp_path: Path) -> None:
    after = tmp_path / "after"
    hook = Hook("echo one; echo access denied >&2; exit 3", f"touch {after}", 5)
    with (
        pytest.raises(ProgramError, match=r"^the consistency hook's command `before` failed: access denied$"),
        between(hook, str(tmp_path)),
    ):
        pytest.fail("it goes on")
    assert after.exists()


def test_a_second_command_that_fails_is_told_loudly_whatever_failed_before(tmp_path: Path) -> None:
    pair = Pair(tmp_path, engine="periodic")
    hook = Hook("echo no such table; false", "echo lost connection; false", 5)
    pair.settings = pair.settings._replace(consistency=Consistency("hook", ("/",), hook))
    with pytest.raises(ReconcileError) as error:
        pair.reconcile()
    assert str(error.value).endswith(
        "THE SERVICE MAY STILL BE HELD: the consistency hook's command `after` failed: lost connection; "
        "run it by hand (echo lost connection; false); before that, the consistency hook's command `before` failed: "
        "no such table"
    )
    assert pair.marks.any
    # Nothing to undo is no reason not to sync, as long as the next pair ends well.
    pair.settings = pair.settings._replace(consistency=Consistency("hook", ("/",), Hook("true", "true", 5)))
    assert pair.reconcile()["error"] is None
    assert not (Path(pair.settings.run_dir) / HELD).exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_second_command_of_a_killed_run_is_made_up_for(tmp_path: Path, number: signal.Signals) -> None:
    log = tmp_path / "log"
    hook = Hook(f"echo before >>{log}", f"echo after >>{log}", 5)
    pair = Pair(tmp_path, engine="periodic", bandwidth=256, consistency=Consistency("hook", ("/",), hook))
    (pair.tree / "big").write_bytes(os.urandom(5_000_000))
    child = subprocess.Popen(pair.command(), start_new_session=True)
    wait_for(lambda: any(pair.standby.glob(".big.*")), "the transfer")
    os.killpg(child.pid, number)
    assert child.wait(timeout=20) == -number
    killed = number == signal.SIGKILL
    assert log.read_text() == ("before\n" if killed else "before\nafter\n")
    pair.settings = pair.settings._replace(bandwidth=None)
    pair.reconcile()
    assert log.read_text() == "before\nafter\nbefore\nafter\n"


@pytest.mark.parametrize(
    "note", ["{", "", "[]", "5", '{"timeout": 5}', '{"after": "touch RAN", "timeout": "soon"}', "\udcff"]
)
def test_a_damaged_note_is_none(tmp_path: Path, note: str) -> None:
    """Half of a command is not run. The next pair runs its own, and takes the note away."""
    ran = tmp_path / "ran"
    (tmp_path / HELD).write_bytes(note.replace("RAN", str(ran)).encode("utf-8", "surrogateescape"))
    release_what_is_held(str(tmp_path))
    assert not ran.exists()
    with between(Hook("true", f"touch {ran}", 5), str(tmp_path)):
        assert not ran.exists()
    assert ran.exists()
    assert not (tmp_path / HELD).exists()
