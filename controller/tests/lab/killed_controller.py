"""The real `vcrecovery`, killed with SIGKILL right before its Nth change of anything, or left with a full disk there.

`python killed_controller.py N WORDS...`: a change is a journal entry, or an act on LXD, a VM, a name or a chosen mode.
Its last boundary is when everything is done. With `N:FILE`, FILE takes the whole disk that it is on instead, and the
program goes on.

Without arguments it takes one JSON object a line, `{"before": "N", "words": [...], "out": FILE, "err": FILE}`, runs
each in a process of its own and answers with a line, its exit status: most of such a short run is loading Python.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vcrecovery.cli.main import VERBS, main
from vcrecovery.drivers.dns import Zone
from vcrecovery.drivers.libvirt import LibvirtHost
from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.recover import host_fence
from vcrecovery.recover.journal import Journal
from vcrecovery.sync.modes import ChosenModes

#: Each of these changes something once, or nothing.
CHANGES: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (Journal, ("transaction",)),
    (LxdServer, ("_change", "configure")),
    (LibvirtHost, ("destroy", "suspend", "resume")),
    (host_fence, ("power_off",)),
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


class Countdown:
    """`at_the_end` is called once, at the boundary of this number; the first is 1."""

    def __init__(self, boundary: int, at_the_end: Callable[[], None] = kill_this) -> None:
        self._left = boundary
        self._at_the_end = at_the_end
        self._one_at_a_time = threading.Lock()

    def pass_one(self) -> None:
        with self._one_at_a_time:
            self._left -= 1
            if self._left == 0:
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


def run_until(before: str, words: list[str]) -> None:
    """Does not return."""
    number, _, file = before.partition(":")
    countdown = Countdown(int(number), (lambda: fill_the_disk_of(Path(file))) if file else kill_this)
    for owner, names in CHANGES:
        for name in names:
            setattr(owner, name, countdown.before(getattr(owner, name)))
    sys.argv = ["vcrecovery", *words]
    try:
        main()
    finally:
        countdown.pass_one()


def serve() -> None:
    for module in {module for module, _, _ in VERBS.values()}:
        importlib.import_module(f"vcrecovery.cli.{module}")
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            for number, file in ((1, asked["out"]), (2, asked["err"])):
                os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            run_until(asked["before"], asked["words"])
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run_until(sys.argv[1], sys.argv[2:])
    else:
        serve()
