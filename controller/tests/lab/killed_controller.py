"""The real `vcrecovery`, and what befalls it right before its Nth change of anything: by default, SIGKILL.

`python killed_controller.py N WORDS...`: a change is a journal entry, or an act on LXD, a VM, a name or a chosen mode.
Its last boundary is when everything is done. With `N@KINDS`, only changes of these kinds count (see `every_change`).
With `FILE@KINDS`, it is killed before the first one that is not yet in FILE, which has it then.
With `N:FILE`, FILE takes the whole disk that it is on; with `N:+SECONDS` or `N:-SECONDS`, the clock is set; and the
program goes on.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

from lab.every_change import count_changes
from vcrecovery.cli.main import main
from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.dns import Zone
from vcrecovery.drivers.libvirt import LibvirtHost
from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.operations.environment import Environment
from vcrecovery.standby.modes import ChosenModes
from vcrecovery.store.journal import Journal

#: Each of these changes something once, or nothing.
CHANGES: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (Journal, ("transaction",)),
    (LxdServer, ("_change", "configure")),
    (LibvirtHost, ("destroy", "suspend", "resume")),
    (Environment, ("power_off",)),
    (Zone, ("commit",)),
    (ChosenModes, ("write",)),
)


def kill_this() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fill_the_disk_of(file: Path) -> None:
    """Returns when it has no byte left."""
    with file.open("ab", buffering=0) as ballast:
        for size in (65536, 4096, 1):
            try:
                while ballast.write(b"x" * size) == size:
                    pass
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise


def set_the_clock(seconds: float) -> None:
    # Of the program alone, but all of it reads this one.
    setattr(SystemClock, "now", lambda _self: time.time() + seconds)  # noqa: B010


def befalls(what: str) -> Callable[[], None]:
    if not what:
        return kill_this
    if what[0] in "+-":
        return lambda: set_the_clock(float(what))
    return lambda: fill_the_disk_of(Path(what))


class Countdown:
    """`at_the_end` is called once, at the boundary of this number; the first is 1."""

    def __init__(self, boundary: int, at_the_end: Callable[[], None] = kill_this) -> None:
        self._left = boundary
        self._at_the_end = at_the_end
        self._one_at_a_time = threading.RLock()

    def pass_one(self, name: str = "a change") -> None:
        """`name`: of the change that follows, for whoever reads the program's errors."""
        with self._one_at_a_time:
            self._left -= 1
            if self._left == 0:
                if self._at_the_end is kill_this:
                    os.write(2, f"killed before {name}\n".encode())
                self._at_the_end()

    def before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self.pass_one()
            return function(*args, **kwargs)

        return wrapped

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self.pass_one()
            result = function(*args, **kwargs)
            self.pass_one()
            return result

        return wrapped


class Unseen:
    """The process ends before the first change whose name is not in the file yet, and adds it.

    So call after call is killed one change further on.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seen = {f"open {file}", *(file.read_text().splitlines() if file.exists() else ())}
        self._one_at_a_time = threading.RLock()

    def pass_one(self, name: str) -> None:
        with self._one_at_a_time:
            if name in self._seen:
                return
            # What this does to the file is no change that counts.
            self._seen.add(name)
            file = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            os.write(file, f"{name}\n".encode())
            kill_this()


def run_until(before: str, words: list[str]) -> None:
    """Does not return."""
    where, _, what = before.partition(":")
    number, _, kinds = where.partition("@")
    if not number.isdigit():
        count_changes(Unseen(Path(number)).pass_one, kinds.split(","))
        sys.argv = ["vcrecovery", *words]
        main()
    countdown = Countdown(int(number), befalls(what))
    if kinds:
        count_changes(countdown.pass_one, kinds.split(","))
    else:
        for owner, names in CHANGES:
            for name in names:
                setattr(owner, name, countdown.before(getattr(owner, name)))
    sys.argv = ["vcrecovery", *words]
    try:
        main()
    finally:
        countdown.pass_one("the end")


if __name__ == "__main__":
    run_until(sys.argv[1], sys.argv[2:])
