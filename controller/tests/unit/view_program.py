"""The program itself, as an operator calls it: on a pipe or on a terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Seconds for what takes one or two; machines differ.
PATIENCE = 60.0


def env(**changes: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS", "LINES", "TERM")}
    return {**kept, "TERM": "xterm", **changes}


def command(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "vcrecovery", *(str(word) for word in words)]


def vcrecovery(*words: str | Path, **changes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words), capture_output=True, text=True, timeout=PATIENCE, check=False, env=env(**changes)
    )


def only(said: str) -> dict[str, Any]:
    (service,) = json.loads(said)["services"]
    assert isinstance(service, dict)
    return service


class Reader:
    """What a program writes, with a bound on each wait."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.text = ""

    def until(self, wanted: Callable[[str], bool]) -> str:
        deadline = time.monotonic() + PATIENCE
        while not wanted(self.text):
            left = deadline - time.monotonic()
            assert left > 0, self.text
            if select.select([self._fd], [], [], left)[0]:
                self.text += os.read(self._fd, 65536).decode()
        return self.text


def on_a_terminal(*words: str | Path, until: Callable[[str], bool], **changes: str) -> str:
    """What the program shows on a terminal. It is interrupted when `until` holds."""
    master, slave = pty.openpty()
    try:
        with subprocess.Popen(
            command(*words), stdin=slave, stdout=slave, stderr=slave, env=env(**changes), close_fds=True
        ) as process:
            try:
                said = Reader(master).until(until)
                process.send_signal(signal.SIGINT)
                process.wait(PATIENCE)
            finally:
                process.kill()
    finally:
        os.close(slave)
        os.close(master)
    return said
