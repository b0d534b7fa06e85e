"""The one place where subprocesses are started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence

from vcrecovery.errors import OutsideError


def run(argv: Sequence[str], *, timeout: float, stdin: bytes = b"", whole_group: bool = False) -> bytes:
    """What `argv` prints. No shell; `timeout` in seconds.

    With `whole_group` its children end with it at the timeout; otherwise one that holds its output is waited for.
    Raises OutsideError with the command's name and its last line when it fails or takes too long.
    """
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=whole_group,
        )
    except FileNotFoundError as error:
        raise OutsideError(f"{argv[0]} is not installed") from error
    except OSError as error:
        raise OutsideError(f"{argv[0]} cannot be run: {error.strerror}") from error
    with process:
        try:
            stdout, stderr = process.communicate(stdin, timeout=timeout)
        except BaseException as error:
            if whole_group:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            if isinstance(error, subprocess.TimeoutExpired):
                raise OutsideError(f"{argv[0]} did not finish within {timeout:.0f} s") from error
            raise
    if process.returncode:
        lines = (stderr.strip() or stdout.strip()).decode(errors="replace").splitlines() or ["it printed nothing"]
        raise OutsideError(f"{argv[0]} failed with status {process.returncode}: {lines[-1]}")
    return stdout
