"""Compares the whole tree with the standby and sends what differs, whatever lsyncd has or has not seen.

lsyncd goes on meanwhile, so a reconcile can overwrite something newer with what it read a moment before, or delete a
file that has just come. Both only happen to paths that it says it has changed. These are therefore sent a second
time, named, while lsyncd waits.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import AbstractSet, Any, Callable, Dict, Iterator, Optional

from ..excludes.errors import ExcludeError
from .consistency import consistent_tree
from .current import current
from .heartbeat import since_boot, stamp
from .hidden import hidden_paths
from .marker import NAME as HEARTBEAT_NAME
from .marks import Marks
from .never_sent import never_sent
from .programs import ProgramError, Run
from .receivers import find_receiver
from .refresh import refresh
from .report import NAME as REPORT_NAME
from .report import progress_sentence, read_report, write_report
from .sent_bytes import sent_bytes
from .sent_mounts import check_mounts, note_mounts, note_path
from .settings import Settings
from .transfer import Progress, named_paths, whole_tree

_PROGRESS_SECONDS = 5.0


class ReconcileError(Exception):
    """The standby may lack something; the next reconcile tries again."""


def reconcile(
    settings: Settings, run: Run, tell_sync: Callable[[], None], say: Callable[[str], None],
    now: Callable[[], float] = time.time, steady: Callable[[], float] = since_boot,
) -> Dict[str, Any]:  # fmt: skip
    """Brings the standby to the state of the tree; the report. Raises ReconcileError with one line."""
    with alone(settings.run_dir):
        marks = Marks(settings.run_dir)
        marks.begin()
        find_receiver(settings, run)
        to = current(settings.run_dir, settings.receivers)
        began, ticks = now(), steady()
        before = read_report(settings.state_dir)
        # A list that cannot be made anew is no reason not to send: the old one stands.
        list_error = _refreshed(settings, tell_sync)
        report: Dict[str, Any] = {"began": began, "list_error": list_error}
        report.update((key, before.get(key)) for key in ("last_good", "never_sent"))
        if settings.consistency.belongs_together:
            # Should this pass be cut off, the standby can tell.
            _tell(settings, report)
        try:
            hidden = hidden_paths(settings.lists["rsync-filter"])
            report["never_sent"] = never_sent(settings, hidden)
            # To rsync the folder of what is not mounted is empty, and so the last good copy would be.
            check_mounts(settings, hidden)
            _note(settings, hidden, say)
            _send(settings, run, report, _Teller(settings, report, say, now))
            # What went away meanwhile, too.
            check_mounts(settings, hidden)
            _note(settings, hidden, say)
            if current(settings.run_dir, settings.receivers) != to:
                raise ProgramError("the standby has moved meanwhile")
        except (ProgramError, OSError) as error:
            report.update(ended=now(), error=str(error), progress=None)
            _tell(settings, report)
            raise ReconcileError(f"the standby may lack something: {error}") from None
        report.update(ended=now(), error=None, progress=None, last_good=began)
        if settings.engine == "periodic":
            # The time of its beginning by the clock as it is now: a boot may set it meanwhile.
            at = now() - (steady() - ticks)
            stamp(
                settings.state_dir, at, None, sent=sent_bytes(run),
                receiver=to.name if to is not None else None, knows=settings.receivers,
            )  # fmt: skip
        marks.end()
        _tell(settings, report)
        return report


def _send(settings: Settings, run: Run, report: Dict[str, Any], tell: Callable[[Progress], None]) -> None:
    with consistent_tree(settings, run) as tree:
        done = whole_tree(tree, settings, tell)
        report.update(bytes=done.bytes, files=done.files, changes=len(done.paths))
        if done.paths and settings.engine == "lsyncd":
            named_paths(tree, settings, done.paths)


def _note(settings: Settings, hidden: AbstractSet[bytes], say: Callable[[str], None]) -> None:
    """Where it cannot be written there is less protection, but still a sync."""
    try:
        note_mounts(settings, hidden)
    except OSError as error:
        say(f"warning: {note_path(settings)}: {error.strerror}; no boot notices what is not mounted any more")


class _Teller:
    """Tells of the progress, at most every few seconds: in the journal, and in the report for the secondary."""

    def __init__(
        self, settings: Settings, report: Dict[str, Any], say: Callable[[str], None], now: Callable[[], float]
    ) -> None:
        self._settings, self._report, self._say, self._now = settings, report, say, now
        self._told = now()

    def __call__(self, progress: Progress) -> None:
        at = self._now()
        if at - self._told < _PROGRESS_SECONDS:
            return
        self._told = at
        seconds = at - self._report["began"]
        remaining = seconds * (100 - progress.percent) / progress.percent if progress.percent else None
        self._report["progress"] = {**progress._asdict(), "at": at, "remaining": remaining}
        _tell(self._settings, self._report)
        self._say(progress_sentence(progress.bytes, progress.files, progress.percent, remaining))


def _tell(settings: Settings, report: Dict[str, Any]) -> None:
    """Leaves the report where it is synced; without lsyncd, sends it."""
    write_report(settings.state_dir, report)
    if settings.engine != "lsyncd":
        folder = os.path.relpath(settings.state_dir, settings.source)
        if not folder.startswith(".."):
            with contextlib.suppress(ProgramError):
                named_paths(
                    settings.source,
                    settings,
                    [os.fsencode(folder + "/" + name) for name in (REPORT_NAME, HEARTBEAT_NAME)],
                )


def _refreshed(settings: Settings, tell_sync: Callable[[], None]) -> Optional[str]:
    try:
        refresh(settings, tell_sync)
    except ExcludeError as error:
        return str(error)
    return None


@contextlib.contextmanager
def alone(run_dir: str) -> Iterator[None]:
    """One pass over the tree at a time; a second waits, since a mark may have been made after the first began."""
    os.makedirs(run_dir, mode=0o755, exist_ok=True)
    with open(os.path.join(run_dir, "reconcile.lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
