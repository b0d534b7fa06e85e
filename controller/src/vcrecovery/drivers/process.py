"""The one place where subprocesses are started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Sequence

from vcrecovery.errors import ExternalError

_PR_SET_PDEATHSIG = 1


def run(argv: Sequence[str], *, timeout: float, stdin: bytes = b"", outlives_us: bool = True) -> bytes:
    """What `argv` prints. No shell; `timeout` in seconds.

    Its children end with it at the timeout. When this program is killed, the command goes on to its end, unless it is
    one that runs for long and must not (`outlives_us`; only for a program without threads).
    Raises ExternalError with the command's name and its last line when it fails or takes too long.
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
        raise ExternalError(f"{argv[0]} is not installed") from error
    except OSError as error:
        raise ExternalError(f"{argv[0]} cannot be run: {error.strerror}") from error
    with process:
        try:
            stdout, stderr = process.communicate(stdin, timeout=timeout)
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise ExternalError(f"{argv[0]} did not finish within {timeout:g} s") from error
            raise
    if process.returncode:
        lines = (stderr.strip() or stdout.strip()).decode(errors="replace").splitlines() or ["it printed nothing"]
        raise ExternalError(f"{argv[0]} failed with status {process.returncode}: {lines[-1]}")
    return stdout


def _ends_with(parent: int) -> Callable[[], None]:
    """For the new process: the kernel kills it when `parent` ends, however that ends."""
    import ctypes

    prctl = ctypes.CDLL(None).prctl

    def follow() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return follow
