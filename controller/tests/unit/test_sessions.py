"""Sessions of the receiver: real processes with a real lock."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.waiting import wait_for
from vcrecovery.errors import ExternalError
from vcrecovery.transfer import sessions

#: Joins, starts a child that inherits the lock, says so, and becomes another program.
SESSION = """\
import os, sys
from pathlib import Path
from vcrecovery.transfer import sessions
sessions.join(Path(sys.argv[1]), "web", 5)
if os.fork() == 0:
    print("child", flush=True)
os.execvp("sleep", ["sleep", "1000"])
"""
#: A receiver, whose child is in an attacker's hands and tries to be in no session.
RECEIVER = """\
import fcntl, os, sys, time
from pathlib import Path
from vcrecovery.transfer import sessions
lock = sessions.join(Path(sys.argv[1]), "web", 5)
child = os.fork()
if child == 0:
    sessions.hold_apart(lock)
    fcntl.flock(lock, fcntl.LOCK_UN)
    print(os.getpid(), flush=True)
    time.sleep(1000)
_, status = os.waitpid(child, 0)
sys.exit(7)
"""
Opener = Callable[[], "subprocess.Popen[str]"]


@pytest.fixture
def open_session(tmp_path: Path) -> Iterator[Opener]:
    started: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        words = [sys.executable, "-c", SESSION, str(tmp_path)]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "child\n"
        # In the middle of becoming another program its open files cannot be seen.
        comm = Path(f"/proc/{process.pid}/comm")
        wait_for(lambda: comm.read_text() == "sleep\n", "another program in the session", poll=0.005)
        return process

    yield start
    for process in started:
        with process:
            try:
                os.killpg(process.pid, 9)
            except ProcessLookupError:
                continue


def held(folder: Path) -> dict[int, str]:
    return sessions.holders(sessions.lock_file(folder, "web"))


def test_every_process_of_every_session_is_ended(tmp_path: Path, open_session: Opener) -> None:
    first, second = open_session(), open_session()
    assert len(held(tmp_path)) == 4
    assert sessions.end_sessions(tmp_path, "web", 10) == 2
    assert (first.wait(10), second.wait(10)) == (-9, -9)
    assert held(tmp_path) == {}


def test_a_second_run_ends_nothing(tmp_path: Path, open_session: Opener) -> None:
    open_session()
    assert sessions.end_sessions(tmp_path, "web", 10) == 1
    assert sessions.end_sessions(tmp_path, "web", 10) == 0


def test_a_child_that_outlives_its_receiver_is_ended(tmp_path: Path, open_session: Opener) -> None:
    receiver = open_session()
    receiver.kill()
    receiver.wait(10)
    (orphan,) = held(tmp_path)
    assert orphan != receiver.pid
    assert sessions.end_sessions(tmp_path, "web", 10) == 1
    assert held(tmp_path) == {}


def test_a_child_that_has_left_the_lock_is_ended_before_its_receiver(tmp_path: Path) -> None:
    words = [sys.executable, "-c", RECEIVER, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True) as receiver:
        try:
            assert receiver.stdout is not None
            child = int(receiver.stdout.readline())
            # Nor has it given up its receiver's hold.
            assert held(tmp_path) == {receiver.pid: "READ"}
            assert sessions.end_sessions(tmp_path, "web", 10) == 1
            assert not Path(f"/proc/{child}").exists()
            # It has not been killed, but has seen its child end.
            assert receiver.wait(10) == 7
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(receiver.pid, signal.SIGKILL)


def test_only_holders_are_ended(tmp_path: Path, open_session: Opener) -> None:
    open_session()
    with sessions.lock_file(tmp_path, "web").open() as only_open:
        words = ["sleep", "1000"]
        with subprocess.Popen(words, pass_fds=[only_open.fileno()]) as bystander:
            try:
                assert sessions.end_sessions(tmp_path, "web", 10) == 1
                assert bystander.poll() is None
            finally:
                bystander.kill()


def test_another_service_is_left_alone(tmp_path: Path, open_session: Opener) -> None:
    session = open_session()
    assert sessions.end_sessions(tmp_path, "db", 10) == 0
    assert session.poll() is None


def test_setting_aside_waits_and_does_not_kill(tmp_path: Path, open_session: Opener) -> None:
    session = open_session()
    with (
        pytest.raises(ExternalError, match=r"are arriving.*; try again later"),
        sessions.set_aside(tmp_path, "web", 0.1),
    ):
        pass
    assert session.poll() is None
    sessions.end_sessions(tmp_path, "web", 10)
    with sessions.set_aside(tmp_path, "web", 0.1):
        with pytest.raises(ExternalError, match="was busy"):
            sessions.join(tmp_path, "web", 0.1)
        # Who keeps sessions out is not killed, and is no obstacle: there is none.
        assert sessions.end_sessions(tmp_path, "web", 0.1) == 0
        with pytest.raises(ExternalError, match=rf"by process {os.getpid()}"), sessions.take_over(tmp_path, "web", 0.1):
            pass


def test_taking_over_keeps_sessions_out(tmp_path: Path, open_session: Opener) -> None:
    open_session()
    with sessions.take_over(tmp_path, "web", 10) as ended:
        assert ended == 1
        with pytest.raises(ExternalError, match="was busy"):
            sessions.join(tmp_path, "web", 0.1)
    with sessions.set_aside(tmp_path, "web", 0.1):
        pass


def test_a_lock_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "standbys").write_text("")
    with pytest.raises(ExternalError, match=r"web\.lock cannot be used: .*; free some space or correct its rights"):
        sessions.end_sessions(tmp_path, "web", 1)
