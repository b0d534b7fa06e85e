"""Marks in the run folder: whether the standby may lack something that nobody will send by itself.

systemd makes `starting` before lsyncd starts, and the heartbeat where lsyncd has to start anew. lsyncd replaces it by
`due` as soon as it watches; it also makes `due` after an overflow and after a transfer that was not whole. A
reconcile renames `due` to `reconciling`, so that a mark made meanwhile is a new one, and removes that when it has
ended well. While any of them is there, heartbeats vouch for nothing newer than the last one before.

`lost` says something else: a session has failed, so that the standby may be on another secondary by now.
"""

from __future__ import annotations

import contextlib
import os

STARTING, DUE, RECONCILING = "starting", "due", "reconciling"
LOST = "lost"


class Marks:
    """The marks of one run folder."""

    def __init__(self, run_dir: str) -> None:
        self._run_dir = run_dir
        self._starting = os.path.join(run_dir, STARTING)
        self._due = os.path.join(run_dir, DUE)
        self._reconciling = os.path.join(run_dir, RECONCILING)
        os.makedirs(run_dir, mode=0o755, exist_ok=True)

    def begin(self) -> None:
        """Takes what is due; sets the second mark in any case, so that a killed reconcile leaves it."""
        with contextlib.suppress(FileNotFoundError):
            os.rename(self._due, self._reconciling)
        os.close(os.open(self._reconciling, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))

    def end(self) -> None:
        """Removes the second mark: the whole tree has arrived."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._reconciling)

    def make_due(self) -> None:
        """The standby may lack something."""
        os.close(os.open(self._due, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))

    def make_starting(self) -> None:
        """lsyncd does not see everything before its next start."""
        os.close(os.open(self._starting, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))

    @property
    def starting_at(self) -> int:
        """When that mark was made, in nanoseconds; 0 without it."""
        try:
            return os.stat(self._starting).st_mtime_ns
        except FileNotFoundError:
            return 0

    def take_lost(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self._run_dir, LOST))

    @property
    def any(self) -> bool:
        """True while the standby may lack something."""
        return any(os.path.exists(os.path.join(self._run_dir, name)) for name in (STARTING, DUE, RECONCILING))
