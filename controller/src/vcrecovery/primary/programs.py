"""Runs other programs: argument lists, no shell but where an operator's own command asks for one, always a bound."""

from __future__ import annotations

import subprocess
from typing import Callable, Optional, Sequence


class ProgramError(Exception):
    """A program failed; `str()` is one line, `status` its exit status, None if it was not started or took too long."""

    def __init__(self, message: str, status: Optional[int] = None) -> None:
        super().__init__(message)
        self.status = status


#: Runs a command with a bound in seconds and returns what it printed, or raises ProgramError.
Run = Callable[[Sequence[str], float], str]


def run(command: Sequence[str], timeout: float) -> str:
    """See Run."""
    try:
        done = subprocess.run(
            list(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            timeout=timeout, check=False,
        )  # fmt: skip
    except OSError as error:
        raise ProgramError(f"{command[0]}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise ProgramError(f"{command[0]} has not ended within {timeout:.0f} s") from None
    if done.returncode:
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
        last = said[-1] if said else f"exit status {done.returncode}"
        raise ProgramError(f"{command[0]}: {last}", done.returncode)
    return done.stdout.decode("utf-8", "replace")
