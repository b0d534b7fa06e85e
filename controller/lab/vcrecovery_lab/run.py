"""The one place where the lab starts other programs and waits for them."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class LabError(Exception):
    """Something the lab needs did not work; the message is one line for the user."""


def run(
    argv: Sequence[str | Path],
    *,
    timeout: float,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end and return its output; with `check`, a non-zero exit status is a LabError."""
    command = [str(word) for word in argv]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if env is None else {**os.environ, **env},
            text=True,
            errors="replace",
            # A session of its own, so that at a timeout its children go too: one of them could hold the pipes open.
            start_new_session=True,
        )
    except OSError as error:
        raise LabError(f"{command[0]}: {error.strerror}") from error
    with process:
        try:
            stdout, stderr = process.communicate(stdin, timeout=timeout)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise LabError(f"{_shown(command)}: no end after {timeout:g} s") from error
            raise
    if check and process.returncode:
        raise LabError(f"{_shown(command)}: {_last_line(stderr, stdout) or f'exit status {process.returncode}'}")
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def _shown(command: Sequence[str]) -> str:
    text = " ".join(shlex.join(command).split())
    return text if len(text) <= 160 else f"{text[:157]}..."


def _last_line(*outputs: str) -> str:
    for output in outputs:
        lines = output.strip().splitlines()
        if lines:
            return lines[-1].strip()
    return ""
