"""The one place where subprocesses are started."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vcrecovery.errors import ExternalError

_PR_SET_PDEATHSIG = 1
#: Bytes that are kept of what a command prints, the last ones.
_LAST_WORDS = 4096
_AT_ONCE = 65536
#: Bytes after which it is read slowly.
_MUCH = 4 << 20
#: Seconds between two looks whether it has ended.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.05
#: Bytes of all that a command prints of which nothing may be left out.
_MOST = 64 << 20
#: Seconds between two looks whether a command has ended whose output somebody still has open.
_LEFT_OPEN = 0.2


@dataclass(frozen=True)
class Ended:
    """`status` is None for one that was killed since it took too long; below zero for one that a signal has ended."""

    status: int | None
    last_words: bytes = b""


def run_and_end(argv: Sequence[str], *, timeout: float, stdin: bytes = b"") -> Ended:
    """Runs what may do anything: print without end, ignore signals, leave children behind.

    At its end, or after `timeout` seconds, its whole process group is killed. It need not read `stdin`. Raises
    ExternalError when it cannot be run.
    """
    with tempfile.TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        try:
            process = subprocess.Popen(
                list(argv), stdin=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
            )
        except OSError as error:
            what = "is not installed" if isinstance(error, FileNotFoundError) else f"cannot be run: {error.strerror}"
            raise ExternalError(f"{argv[0]} {what}") from error
    kept, in_time = b"", False
    try:
        kept, in_time = _until_it_ends(process, time.monotonic() + timeout)
    finally:
        # It is not waited for yet, so the group is still its own.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None  # noqa: S101  it was asked for
        process.stdout.close()
    return Ended(process.returncode if in_time else None, kept)


def _until_it_ends(process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bool]:
    """The last of what it printed, and whether it has ended by itself. Nobody waits for it yet: its number stays."""
    assert process.stdout is not None  # noqa: S101  it was asked for
    printed, kept, pause, so_far = process.stdout.fileno(), b"", _FIRST_PAUSE, 0
    os.set_blocking(printed, False)
    with selectors.DefaultSelector() as waiting:
        waiting.register(printed, selectors.EVENT_READ)
        while True:
            has_ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
            if waiting.get_map() and waiting.select(0 if has_ended else pause):
                # After its end too, once: a child that goes on printing is killed with it.
                chunk = os.read(printed, _AT_ONCE)
                kept, so_far = (kept + chunk)[-_LAST_WORDS:], so_far + len(chunk)
                if so_far > _MUCH and not has_ended:
                    # Others have better things to do meanwhile.
                    time.sleep(pause)
                if not chunk:
                    waiting.unregister(printed)
            elif not has_ended and not waiting.get_map():
                time.sleep(pause)
            if has_ended or time.monotonic() >= deadline:
                return kept, has_ended
            pause = min(2 * pause, _LONGEST_PAUSE, max(0.0, deadline - time.monotonic()))


class CannotRunError(ExternalError):
    """It was never begun: what is wrong is here."""


def run(argv: Sequence[str], *, timeout: float, stdin: bytes = b"", outlives_us: bool = True) -> bytes:
    """What `argv` prints. No shell; `timeout` in seconds.

    Its children end with it at the timeout. A daemon that it leaves behind, such as an ssh that keeps its connection
    for others, is not waited for, though it has the output open. When this program is killed, the command goes on to
    its end, unless it is one that runs for long and must not (`outlives_us`; only for a program without threads).
    Raises ExternalError with the command's name and its last line when it fails or takes too long: CannotRunError when
    it was never begun.
    """
    pipe = subprocess.PIPE
    try:
        # A session of its own, so that at the timeout its children go too.
        process = subprocess.Popen(
            list(argv),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,
            preexec_fn=None if outlives_us else _ends_with(os.getpid()),
        )
    except FileNotFoundError as error:
        raise CannotRunError(f"{argv[0]} is not installed") from error
    except OSError as error:
        raise CannotRunError(f"{argv[0]} cannot be run: {error.strerror}") from error
    with process:
        try:
            stdout, stderr = _all_of(process, stdin, time.monotonic() + timeout)
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, TimeoutError):
                raise ExternalError(f"{argv[0]} did not finish within {timeout:g} s") from error
            if isinstance(error, OverflowError):
                raise ExternalError(f"{argv[0]} prints without end") from error
            raise
    if process.returncode:
        lines = (stderr.strip() or stdout.strip()).decode(errors="replace").splitlines() or ["it printed nothing"]
        raise ExternalError(f"{argv[0]} failed with status {process.returncode}: {lines[-1]}")
    return stdout


def _all_of(process: subprocess.Popen[bytes], stdin: bytes, deadline: float) -> tuple[bytes, bytes]:
    """What it prints, and its errors. Raises TimeoutError at the deadline, and OverflowError when that is too much."""
    assert process.stdin is not None  # noqa: S101  they were asked for
    assert process.stdout is not None  # noqa: S101
    assert process.stderr is not None  # noqa: S101
    printed, errors, unread = bytearray(), bytearray(), memoryview(stdin)
    with selectors.DefaultSelector() as waiting:
        waiting.register(process.stdout, selectors.EVENT_READ, printed)
        waiting.register(process.stderr, selectors.EVENT_READ, errors)
        os.set_blocking(process.stdin.fileno(), False)
        waiting.register(process.stdin, selectors.EVENT_WRITE)
        while waiting.get_map():
            if time.monotonic() >= deadline:
                raise TimeoutError
            ready = waiting.select(min(_LEFT_OPEN, max(0.0, deadline - time.monotonic())))
            if not ready and _is_over(process):
                break
            for key, _ in ready:
                if key.fileobj is process.stdin:
                    try:
                        unread = unread[os.write(key.fd, unread[:_AT_ONCE]) :]
                    except BrokenPipeError:
                        unread = unread[:0]  # it need not read it
                    if not unread:
                        waiting.unregister(process.stdin)
                        process.stdin.close()
                elif chunk := os.read(key.fd, _AT_ONCE):
                    key.data.extend(chunk)
                else:
                    waiting.unregister(key.fileobj)
            if len(printed) + len(errors) > _MOST:
                raise OverflowError
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired as error:
        raise TimeoutError from error
    return bytes(printed), bytes(errors)


def _is_over(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has ended, and all of its group."""
    if process.poll() is None:
        return False
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return True
    return False


def _ends_with(parent: int) -> Callable[[], None]:
    """For the new process: the kernel kills it when `parent` ends, however that ends."""
    import ctypes

    prctl = ctypes.CDLL(None).prctl

    def follow() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return follow
