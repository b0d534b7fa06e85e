"""Whoever waits outside the jail, with a jail that anybody may make; the real one is in tests/lab/test_g_attacks.py."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

BEGIN = """\
import os, sys, types
from pathlib import Path
from vcrecovery.errors import ExternalError
from vcrecovery.transfer import jail
real = jail._libc
"""
#: Becomes a shell with a script inside.
IN_A_JAIL = f"""\
{BEGIN}
jail._libc = types.SimpleNamespace(unshare=lambda _flags: 0, prctl=real.prctl)
jail._make_jail = lambda _tree, read_only: None
jail._give_up_rights = lambda _kept: None
jail.enter(Path("/"), [], read_only=True, session=None)
os.execv("/bin/sh", ["sh", "-c", sys.argv[1]])
"""
#: Whoever waits is slow: it sees to signals only once it is told to by a line.
SLOW = IN_A_JAIL.replace(
    BEGIN, f"{BEGIN}opened = os.pidfd_open\nos.pidfd_open = lambda pid: (sys.stdin.readline(), opened(pid))[1]\n"
)
REFUSED = f"""\
{BEGIN}
jail._libc = types.SimpleNamespace(unshare=lambda flags: 0 if flags == jail.CLONE_NEWPID else -1)
try:
    jail.enter(Path("/"), [], read_only=True, session=None)
except ExternalError as error:
    print(error.message, flush=True)
    sys.exit(5)
"""
#: The ID map of its tree cannot be written.
UNMAPPED = f"""\
{BEGIN}
def refuses(_pid, _id_map):
    raise OSError(22, "Invalid argument")
jail._libc = types.SimpleNamespace(unshare=lambda _flags: 0, prctl=real.prctl)
jail._make_jail = lambda _tree, read_only: None
jail._write_id_map = refuses
try:
    jail.enter(Path("/"), [dict(Isuid=True)], read_only=True, session=None)
except ExternalError as error:
    print(error.message, flush=True)
    sys.exit(5)
"""
#: Of what the kernel is asked, the call with that number fails.
RIGHTS = f"""\
{BEGIN}
import ctypes, socket
asked = []
def prctl(option, argument, *_rest):
    asked.append(option)
    ctypes.set_errno(22 if argument > 40 else 1)
    if option == int(sys.argv[1]) or (option == jail.PR_CAPBSET_READ and argument > 40):
        return -1
    return 1 if option == jail.PR_CAPBSET_READ else 0
jail._libc = types.SimpleNamespace(prctl=prctl)
outside, inside = socket.socketpair()
try:
    jail._give_up_rights(jail.TO_READ)
    jail._end_with_parent(inside)
except ExternalError as error:
    print(error.message)
else:
    print("given up", asked.count(jail.PR_CAPBSET_DROP))
"""


@contextmanager
def program(*words: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def said(process: subprocess.Popen[str]) -> str:
    """To the end: until no process of it has its output open."""
    return process.communicate(timeout=60)[0]


@pytest.mark.parametrize(("script", "status"), [("exit 0", 0), ("exit 23", 23), ("kill -9 $$", -9), ("kill $$", -15)])
def test_whoever_waits_ends_as_the_session_does(script: str, status: int) -> None:
    with program(IN_A_JAIL, script) as process:
        assert said(process) == ""
        assert process.returncode == status


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_the_session_which_may_clean_up(number: signal.Signals) -> None:
    script = f"trap 'echo clean; exit 9' {number.value}; echo ready; while :; do sleep 0.1; done"
    with program(IN_A_JAIL, script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert said(process) == "clean\n"
        assert process.returncode == 9


def test_a_signal_that_comes_early_is_passed_on_later() -> None:
    script = "trap 'echo clean; exit 9' TERM; echo ready; while :; do sleep 0.1; done"
    with program(SLOW, script) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert said(process) == "clean\n"
        assert process.returncode == 9


def test_a_session_does_not_outlive_whoever_waits_for_it() -> None:
    with program(IN_A_JAIL, "echo ready; exec sleep 1000") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.kill()
        assert said(process) == ""


def test_a_session_that_gets_no_namespace_leaves_no_process() -> None:
    """It would hold the session's lock for good. Here it would keep the output open."""
    with program(REFUSED) as process:
        assert said(process).startswith("unshare: ")
        assert process.returncode == 5


def test_a_session_whose_owners_cannot_be_mapped_ends() -> None:
    with program(UNMAPPED) as process:
        assert said(process) == "the container's ID map could not be set\n"
        assert process.returncode == 5


@pytest.mark.parametrize(
    ("fails", "what"),
    [
        (0, "given up 40"),
        (23, "looking for capability 0: Operation not permitted"),
        (24, "giving up capability 0: Operation not permitted"),
        (38, "giving up new privileges: Operation not permitted"),
        (1, "asking to end with the parent: Operation not permitted"),
    ],
)
def test_a_right_that_cannot_be_given_up_ends_the_session(fails: int, what: str) -> None:
    with program(RIGHTS, str(fails)) as process:
        assert said(process).startswith(what)


#: What may go on, and for how long: `sys.argv[2]` has it from the second question on.
ASKED = IN_A_JAIL.replace(
    "session=None)", "session=None, still=lambda: asked.pop(0) if len(asked) > 1 else asked[0])"
).replace(BEGIN, f"{BEGIN}jail.ASKED_EVERY = 0.1\nasked = eval(sys.argv[2])\n")


@pytest.mark.parametrize(
    ("script", "asked", "status"),
    [
        ("exit 0", "[True]", 0),
        ("exit 7", "[False]", 7),
        # What has arrived counts for nothing: rsync is to send it again. Nor where nobody knows.
        ("exit 0", "[False]", 12),
        ("exit 0", "[None]", 12),
        # One that goes on for long is ended.
        ("sleep 60", "[True, True, False]", -signal.SIGKILL),
        ("sleep 0.5", "[None, None, True]", 0),
    ],
)
def test_whoever_waits_asks_whether_it_still_may(script: str, asked: str, status: int) -> None:
    done = subprocess.run([sys.executable, "-c", ASKED, script, asked], timeout=30, check=False)
    assert done.returncode == status
