"""The one place where subprocesses are started."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from vcrecovery.errors import OutsideError


def run(argv: Sequence[str], *, timeout: float, stdin: bytes = b"") -> bytes:
    """What `argv` prints. No shell; `timeout` in seconds.

    Raises OutsideError with the command's name and its last line when it fails or takes too long.
    """
    try:
        done = subprocess.run(list(argv), input=stdin, capture_output=True, timeout=timeout, check=False)
    except FileNotFoundError as error:
        raise OutsideError(f"{argv[0]} is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise OutsideError(f"{argv[0]} did not finish within {timeout:.0f} s") from error
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["it printed nothing"]
        raise OutsideError(f"{argv[0]} failed with status {done.returncode}: {lines[-1]}")
    return done.stdout
