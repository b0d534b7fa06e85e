"""Has lsyncd start anew where the mounts in the tree are others than at its start: it watches what was mounted then.

lsyncd's configuration leaves what is mounted when it starts (see the role's lsyncd.lua); the heartbeat compares that
with what is mounted now, before each stamp. A difference makes the mark `starting`, which only lsyncd's next start
takes away, so nothing newer is vouched for until then, and until the comparison that follows.
"""

from __future__ import annotations

import os
import time
from typing import Callable, Dict, List, Optional, Tuple

from . import lasting_mounts as lasting
from .fstab import FSTAB
from .hidden import hidden_paths
from .lasting_mounts import lasting_mounts
from .marks import Marks
from .mounts import Mount, read_mounts
from .programs import ProgramError
from .sent_mounts import missing_mounts
from .settings import Settings

#: In the run folder.
AT_START = os.path.join("lsyncd", "mounts")
#: Seconds: several are often mounted one after the other; lsyncd has its time, also where something is always on the
#: move; and is asked again.
_QUIET, _STARTED, _AGAIN = 2.0, 10.0, 30.0

Say = Callable[[str], None]


class WatchedMounts:
    """One look is cheap, as long as nothing is mounted or unmounted."""

    def __init__(
        self, settings: Settings, restart: Callable[[], None], say: Say = print,
        now: Callable[[], float] = time.monotonic, fstab: str = FSTAB,
    ) -> None:  # fmt: skip
        self._settings, self._restart, self._say, self._now, self._fstab = settings, restart, say, now, fstab
        self._marks = Marks(settings.run_dir)
        self._start: Optional[Tuple[int, int]] = None
        self._text = b""
        self._known: List[Mount] = []
        self._not_before = 0.0
        self._changed = self._told = False

    def look(self) -> None:
        """Marks, and later restarts. OSError where the kernel tells nothing."""
        if not self._knows_the_start():
            return
        with open(lasting.MOUNTS, "rb") as file:
            text = file.read()
        if text != self._text:
            self._compare()
            self._text = text
        if self._changed:
            # Each time: the start that was under way may have taken it away, and have watched before.
            self._marks.make_starting()
            if self._now() >= self._not_before:
                self._go_on()

    def _knows_the_start(self) -> bool:
        """Not that of an lsyncd that an older version has configured."""
        try:
            found = os.stat(self._place)
            start = (found.st_ino, found.st_mtime_ns)
            noted = read_mounts(self._place) if start != self._start else {}
        except FileNotFoundError:
            # Also while lsyncd starts: it takes away what it had noted.
            return False
        if start != self._start:
            self._known = self._lasting(noted)
            self._start, self._text = start, b""
            self._not_before = self._now() + _STARTED
            # Of a heartbeat before this one: systemd makes it before lsyncd starts.
            self._changed = self._marks.starting_at > found.st_mtime_ns
            self._told = False
        return True

    @property
    def _place(self) -> str:
        return os.path.join(self._settings.run_dir, AT_START)

    def _lasting(self, mounts: Dict[int, Mount]) -> List[Mount]:
        hidden = hidden_paths(self._settings.lists["rsync-filter"])
        found = lasting_mounts(self._settings.source, hidden, mounts.values())
        # A remount that only changes options shows the same files.
        return [mount._replace(parent=0, options="") for mount in found]

    def _compare(self) -> None:
        mounts = read_mounts(lasting.MOUNTS)
        found = self._lasting(mounts)
        # What an automounter has unmounted, since nobody looked, is written to only once it is mounted again.
        waits = {mount.point for mount in mounts.values() if mount.kind == "autofs"}
        kept = [mount for mount in self._known if mount in found or mount.point not in waits]
        # In their order, too: one that was unmounted and mounted again at once is the last one now.
        if found != kept:
            self._changed = True
            self._not_before = max(self._not_before, self._now() + _QUIET)
        self._known = found

    def _go_on(self) -> None:
        hidden = hidden_paths(self._settings.lists["rsync-filter"])
        if missing_mounts(self._settings, hidden, self._fstab):
            # lsyncd would watch, and send, what is written into the folder below. A comparison says what is missing.
            self._not_before = self._now() + _QUIET
            if not self._told:
                self._told = True
                self._marks.make_due()
            return
        self._not_before = self._now() + _AGAIN
        self._say("what is mounted has changed: lsyncd starts anew, to watch it")
        try:
            self._restart()
        except ProgramError as error:
            self._say(f"lsyncd does not start anew: {error}")
