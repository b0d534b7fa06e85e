"""One pass back: the standby's files come into this machine's tree; what each machine has of its own stays."""

from __future__ import annotations

import os
import stat
import time
from typing import Callable, Iterator, List, Optional, Set

from ..excludes.dialects import rsync_pattern
from ..excludes.machine_specific import kept_out
from .fstab import FSTAB
from .half_copied import mark, unmark
from .programs import ProgramError
from .reconcile import alone
from .report import progress_sentence
from .sent_mounts import check_mounts
from .settings import Settings
from .transfer import Progress, Transfer, fetch_tree

_PROGRESS_SECONDS = 5.0
_FILTER = "fetch-filter"
#: Attributes that only this machine's kernel gives are left as they are, as the standby's are (see `rsync_words`). They
#: hold for the receiving side alone (r): rsync 3.1 would hand them on without the x, as if files were meant, and every
#: file called system.conf would seem to be gone from the standby.
_ATTRIBUTES = (b"+xr security.capability", b"-xr security.*", b"-xr trusted.*", b"-xr system.*")
#: Of this machine's boot, and this program's, which may be newer than the standby's copy.
_OWN = (b"/etc/systemd/system/vcrecovery-*", b"/etc/systemd/system/system-vcrecovery.slice")

Say = Callable[[str], None]


class Fetch:
    """Passes of one boot."""

    def __init__(self, settings: Settings, fstab: str = FSTAB, now: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._fstab, self._now = settings, fstab, now
        self._devices: Optional[List[bytes]] = None

    def __call__(self, last: bool, say: Say) -> Transfer:
        """Raises ProgramError, or OSError, when something may be missing here; `last`: the standby has stopped."""
        settings = self._settings
        with alone(settings.run_dir):
            rules = _own_rules(settings) + _rules_of_the_list(settings)
            hidden = {rule[2:].rstrip(b"/") for rule in rules if rule.startswith(b"- /")}
            # What belongs into a file system that is not mounted would land in the folder below, and hide there later:
            # also where a boot may leave it out.
            check_mounts(settings, hidden, self._fstab, nofail=True)
            if self._devices is None:
                self._devices = list(_devices(os.fsencode(settings.source), hidden))
            # A sync sends no device nodes, so to rsync each one here is a file that the standby has deleted.
            nodes = [b"- " + rsync_pattern(path, False) for path in self._devices]
            place = os.path.join(settings.run_dir, _FILTER)
            with open(place, "wb") as file:
                file.write(b"".join(rule + b"\n" for rule in (*_ATTRIBUTES, *nodes, *rules)))
            mark(settings)
            done = fetch_tree(settings, place, self._teller(say), last)
            if last:
                os.sync()
                unmark(settings)
            return done

    def _teller(self, say: Say) -> Callable[[Progress], None]:
        told = self._now()

        def tell(progress: Progress) -> None:
            nonlocal told
            if self._now() - told >= _PROGRESS_SECONDS:
                told = self._now()
                say(progress_sentence(progress.bytes, progress.files, progress.percent, None))

        return tell


def _own_rules(settings: Settings) -> List[bytes]:
    """What is never synced, also where the list is older; and what this machine alone has, as it is now."""
    top = settings.source.rstrip("/")
    own = [os.fsencode(path) for path in kept_out(settings.selection.host_keys)] + list(_OWN)
    program = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folders = [settings.state_dir, program, settings.config_dir]
    try:
        with open(top + "/etc/machine-id", encoding="ascii") as file:
            # Open in the journal's daemon.
            folders.append(f"{top}/var/log/journal/{file.read().strip()}")
    except (OSError, ValueError):
        pass
    for folder in folders:
        if folder.startswith(top + "/"):
            own.append(rsync_pattern(os.fsencode(folder[len(top) :].rstrip("/")), False))
    return [b"- " + pattern for pattern in own]


def _rules_of_the_list(settings: Settings) -> List[bytes]:
    """The list says what is hidden from the standby (H): that is not there, and stays here."""
    place = settings.lists.get("rsync-filter", "")
    try:
        with open(place, "rb") as file:
            lines = [line for line in file.read().split(b"\n") if line]
    except OSError as error:
        raise ProgramError(
            f"the exclude list {place!r} cannot be read ({error.strerror}): run the role `primary` again"
        ) from None
    if not lines:
        raise ProgramError(f"the exclude list {place} is empty: run the role `primary` again")
    return [b"- " + line[2:] if line.startswith(b"H ") else line for line in lines]


def _devices(top: bytes, hidden: Set[bytes]) -> Iterator[bytes]:
    """Device nodes in the tree, from its top; not in what is hidden."""
    folders = [b""]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir((top.rstrip(b"/") + folder) or b"/") as entries:
                for entry in entries:
                    path = folder + b"/" + entry.name
                    if path in hidden:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(path)
                    elif not (entry.is_file(follow_symlinks=False) or entry.is_symlink()):
                        mode = entry.stat(follow_symlinks=False).st_mode
                        if stat.S_ISBLK(mode) or stat.S_ISCHR(mode):
                            yield path
        except FileNotFoundError:  # it has gone meanwhile
            continue
