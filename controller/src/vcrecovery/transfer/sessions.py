"""The receiver's open sessions: who writes into a standby now, and how that is brought to an end.

A session holds its service's lock shared, from before it reads whether the standby may take files until its last
process has ended. So who has told LXD that the standby serves, and then sees that nobody holds the lock shared, knows
that no session writes any more and that none will.

The receiver holds it while it waits for its rsync. rsync and its children hold it a second time, for themselves: should
the receiver be killed, and without a way to let go of the receiver's. An rsync that is in an attacker's hands may leave
the lock, but it remains the receiver's child.

Standard library only: the receiver uses it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from vcrecovery.errors import ExternalError, lock_errors

_POLL = 0.02
#: Seconds for killed sessions to be gone.
SESSIONS_END_WITHIN = 10.0
#: Seconds after which none is left of a standby that was given another role, also where nobody can end them: each asks
#: LXD every 10 s (see `jail`), which has 10 s to answer.
ENDED_BY_THEMSELVES = 25.0
#: A line of /proc/PID/fdinfo/FD. The kernel shows it to each process that has this very open file, so also to heirs.
_HELD = re.compile(r"^lock:\s+\d+: FLOCK\s+\S+\s+(READ|WRITE)\s", re.MULTILINE)


def lock_file(state_dir: Path, service: str) -> Path:
    return state_dir / "standbys" / f"{service}.lock"


def _open(state_dir: Path, service: str) -> int:
    path = lock_file(state_dir, service)
    with lock_errors(path):
        return open_made(path, os.O_RDONLY)


def open_made(path: Path, access: int) -> int:
    """A lock's file, which is made where it is not there; its descriptor. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, access | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _take(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _until(done: Callable[[], bool], timeout: float) -> bool:
    deadline = time.monotonic() + timeout
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL)
    return True


def join(state_dir: Path, service: str, timeout: float) -> int:
    """Makes this process, and all that it becomes or starts, one session; waits while the standby is set aside.

    Returns the lock's descriptor: whoever closes it has left.

    Raises ExternalError after `timeout` seconds.
    """
    descriptor = _open(state_dir, service)
    if not _until(lambda: _take(descriptor, fcntl.LOCK_SH), timeout):
        os.close(descriptor)
        raise ExternalError(f"the standby of {service} was busy for {timeout:.0f} s", "try again later")
    os.set_inheritable(descriptor, True)
    return descriptor


def hold_apart(descriptor: int) -> None:
    """For a child: gives up what it has inherited of its parent's hold, after it has taken one of its own.

    Processes that share an open file share its lock: each could give it up for all.
    """
    own = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
    if not _take(own, fcntl.LOCK_SH):
        raise ExternalError("a session's lock was given up while it began", "try again")
    # To the same number, which no child has open as anything else.
    os.dup2(own, descriptor)
    os.close(own)


def are_files_arriving(state_dir: Path, service: str) -> bool:
    """Whether a session is open, or the standby set aside. Raises ExternalError when the lock cannot be used."""
    descriptor = _open(state_dir, service)
    try:
        return not _take(descriptor, fcntl.LOCK_EX)
    finally:
        os.close(descriptor)


@contextmanager
def set_aside(state_dir: Path, service: str, timeout: float) -> Iterator[None]:
    """Keeps sessions out, after those that are open have ended by themselves.

    Raises ExternalError when one is still open after `timeout` seconds.
    """
    descriptor = _open(state_dir, service)
    try:
        if not _until(lambda: _take(descriptor, fcntl.LOCK_EX), timeout):
            raise ExternalError(
                f"files for the standby of {service} are arriving, and were for {timeout:.0f} s", "try again later"
            )
        yield
    finally:
        os.close(descriptor)


@contextmanager
def take_over(state_dir: Path, service: str, timeout: float) -> Iterator[int]:
    """Ends every open session, and keeps further ones out; yields how many it ended.

    The caller has taken the standby's role away before, so that a session that comes later is refused.
    Raises ExternalError when a session does not end, or somebody else keeps sessions out.
    """
    descriptor = _open(state_dir, service)
    try:
        yield _end_sessions(descriptor, lock_file(state_dir, service), service, timeout, alone=True)
    finally:
        os.close(descriptor)


def end_sessions(state_dir: Path, service: str, timeout: float) -> int:
    """Ends every open session; how many there were.

    The caller has taken the standby's role away before. Somebody who keeps sessions out (a restore point is being made)
    is no obstacle: while he does, there is none. Raises ExternalError when a session does not end.
    """
    descriptor = _open(state_dir, service)
    try:
        return _end_sessions(descriptor, lock_file(state_dir, service), service, timeout, alone=False)
    finally:
        os.close(descriptor)


def _end_sessions(descriptor: int, path: Path, service: str, timeout: float, *, alone: bool) -> int:
    ended: set[int] = set()
    known: set[int] = set()

    def none_left() -> bool:
        if _take(descriptor, fcntl.LOCK_EX):
            return True
        held = holders(path)
        sharing = {pid for pid, kind in held.items() if kind == "READ"}
        parents = _parents()
        # A session is a receiver and all that was started in it; those that lose their parent belong to no new one.
        new = (sharing - known) & parents.keys()
        ended.update(pid for pid in new if parents[pid] not in sharing | known)
        known.update(sharing)
        for pid in sharing:
            _end(pid, path, parents)
        return not alone and "WRITE" in held.values()

    if not _until(none_left, timeout):
        left = ", ".join(str(pid) for pid in sorted(holders(path))) or "none that this one may see"
        raise ExternalError(
            f"the standby of {service} is still written to after {timeout:.0f} s, by process {left}",
            "end that (seeing it takes root with CAP_SYS_PTRACE), then run it again",
        )
    return len(ended)


def holders(path: Path) -> dict[int, str]:
    """The processes that hold the lock, each with READ (shared) or WRITE."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return {}
    found = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and (kind := _holds(process, there)):
            found[int(process.name)] = kind
    return found


def _holds(process: Path, there: os.stat_result) -> str:
    with contextlib.suppress(OSError):  # it ends while it is looked at
        for descriptor in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                # stat() of every open file could hang on a dead network mount; its name cannot.
                if not descriptor.readlink().name.endswith(".lock"):
                    continue
                here = descriptor.stat()
                if (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
                    continue
                if held := _HELD.search((process / "fdinfo" / descriptor.name).read_text()):
                    return held[1]
    return ""


def _parents() -> dict[int, int]:
    """Of each process that lives, whose child it is."""
    numbers = [int(process.name) for process in Path("/proc").iterdir() if process.name.isdigit()]
    return {pid: parent for pid in numbers if (parent := _parent(pid)) is not None}


def _parent(pid: int) -> int | None:
    """None when there is no such process, or it has ended."""
    with contextlib.suppress(OSError):
        # The program's name may hold anything, and ends with the last bracket.
        state, parent = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[:2]
        if state not in (b"Z", b"X"):
            return int(parent)
    return None


def _end(pid: int, path: Path, parents: Mapping[int, int]) -> None:
    """Kills the children of `pid`, and itself only when it has none: so it holds the lock until they have ended.

    Those may have left the lock.
    """
    children = [child for child, parent in parents.items() if parent == pid]
    for target in children or [pid]:
        _kill(target, pid, path)


def _kill(pid: int, holder: int, path: Path) -> None:
    """Not a later process of the same number: `pid` is the lock's `holder`, or its child."""
    with contextlib.suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            if holder in (pid, _parent(pid)) and _holds(Path(f"/proc/{holder}"), path.stat()) == "READ":
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)
