"""A process that hangs: it lives, and does nothing."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from .pair.waiting import wait_until

_STOPPED = ("T", "t")


def stand_still(pid: int) -> None:
    """SIGSTOP; returns when it has come to every thread, which may answer until then. SIGCONT ends it."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: all(state in _STOPPED for state in _states(pid)), f"the halt of process {pid}", 60)


def _states(pid: int) -> list[str]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            text = (task / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # a thread that has ended
        # Its name, in parentheses, may hold anything.
        found.append(text.rpartition(")")[2].split()[0])
    return found
