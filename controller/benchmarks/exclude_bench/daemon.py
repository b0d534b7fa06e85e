"""One lsyncd that watches a tree, takes note of each event and syncs nothing."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from vcrecovery.errors import ExternalError

from .measure import kill_group

_POLL_SECONDS = 0.02
_QUIET_POLLS = 5
_TIMEOUT_SECONDS = 300
# Every event is taken off the queue at once. lsyncd looks through all waiting events at each new one: with rsync and
# a long delay, that would soon take longer than the lists. What comes from the list is the same for every action.
_CONFIGURATION = """\
settings {{ nodaemon = true, inotifyMode = "CloseWrite" }}
local seen = 0
sync {{
  default.rsync, source = "{source}", target = "{folder}/unused", init = false, delay = 0, {excludes}
  action = function(inlet)
    local event = inlet.getEvent()
    seen = seen + 1
    if event.name == "{report}" then
      local report = io.open("{folder}/{report}.new", "w")
      report:write(seen)
      report:close()
      os.rename("{folder}/{report}.new", "{folder}/{report}")
    end
    inlet.discardEvent(event)
  end,
}}
"""
_REPORT = "seen"


class Lsyncd:
    """A running lsyncd."""

    def __init__(self, process: subprocess.Popen[bytes], source: Path, folder: Path, log: Path) -> None:
        self._process = process
        self._source = source
        self._folder = folder
        self._log = log

    def cpu(self) -> float:
        """Seconds of CPU time since its start: from its clock, since /proc/PID/stat counts in 10 ms."""
        return time.clock_gettime((~self._process.pid << 3) | 2)

    def watches(self) -> int:
        """How many directories it watches."""
        found = 0
        for entry in Path(f"/proc/{self._process.pid}/fdinfo").iterdir():
            # It opens and closes the directories while it walks through them.
            with contextlib.suppress(FileNotFoundError):
                found += entry.read_text().count("inotify wd:")
        return found

    def seen(self) -> int:
        """How many events it was told of, this question included."""
        report = self._folder / _REPORT
        report.unlink(missing_ok=True)
        (self._source / _REPORT).write_bytes(b"")
        self.wait_until("answer", report.exists)
        self.wait_idle()
        return int(report.read_text())

    def wait_until(self, what: str, holds: Callable[[], bool]) -> None:
        """Waits for a condition; ExternalError when lsyncd ends, or after 300 s."""
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while not holds():
            if self._process.poll() is not None:
                lines = self._log.read_text(errors="replace").strip().splitlines() or ["it printed nothing"]
                raise ExternalError(f"lsyncd ended with status {self._process.returncode}: {lines[-1]}")
            if time.monotonic() > deadline:
                raise ExternalError(f"lsyncd: no {what} within {_TIMEOUT_SECONDS} s")
            time.sleep(_POLL_SECONDS)

    def wait_idle(self) -> None:
        """Waits until it sleeps and has used no CPU time for some polls: all events are handled."""
        quiet = 0
        last = self.cpu()

        def idle() -> bool:
            nonlocal quiet, last
            state = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0]
            now = self.cpu()
            quiet = quiet + 1 if state == "S" and now == last else 0
            last = now
            return quiet >= _QUIET_POLLS

        self.wait_until("rest", idle)


@contextmanager
def watching(source: Path, exclude_from: Path | None, folder: Path, directories: int) -> Iterator[Lsyncd]:
    """Runs lsyncd on a tree of so many directories until all of them are watched; ends it afterwards."""
    configuration, log = folder / "lsyncd.lua", folder / "lsyncd.log"
    excludes = f'excludeFrom = "{exclude_from}",' if exclude_from else ""
    configuration.write_text(_CONFIGURATION.format(source=source, folder=folder, report=_REPORT, excludes=excludes))
    # It is there from the start, so that writing it is one event.
    (source / _REPORT).touch()
    with log.open("wb") as stream:
        try:
            process = subprocess.Popen(
                ["lsyncd", "-nodaemon", "-log", "scarce", str(configuration)],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                env={**os.environ, "LC_ALL": "C"},
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise ExternalError("lsyncd is not installed") from error
    try:
        lsyncd = Lsyncd(process, source, folder, log)
        lsyncd.wait_until(f"watch on {directories:,} directories", lambda: lsyncd.watches() >= directories)
        lsyncd.wait_idle()
        yield lsyncd
    finally:
        kill_group(process.pid)
        process.wait()
