"""The ways to move it: each begins where it serves on the first side, and ends where it does on the second one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .sides import NAME, PATIENCE, Sides

WARM, STOPPED, RSYNC = "vcrecovery move", "LXD: stop, copy, start", "rsync twice"
#: In another network than the others.
STATEFUL = "vcrecovery move --how stateful"


def warm(sides: Sides) -> None:
    sides.vcrecovery("move", NAME, "--to", "sec2")


def stop_copy_start(sides: Sides) -> None:
    """As whoever has LXD alone does it."""
    config, devices = sides.config("sec2")
    sides.first.lxc("stop", NAME)
    sides.second.server.pull(sides.first.server, NAME, config, devices, PATIENCE)
    _start(sides)


def rsync_twice(sides: Sides) -> None:
    """The container is there already, and empty."""
    sides.rsync()
    sides.first.lxc("stop", NAME)
    sides.rsync()
    _start(sides)


def _start(sides: Sides) -> None:
    sides.second.lxc("start", NAME)
    sides.serves(sides.addresses[1])


WAYS: Mapping[str, Callable[[Sides], None]] = {WARM: warm, STOPPED: stop_copy_start, RSYNC: rsync_twice}


def prepare(sides: Sides, way: str) -> None:
    """Nothing is on the other side; for rsync, an empty container."""
    if way == RSYNC:
        sides.make_empty()


def go_back(sides: Sides, way: str) -> None:
    """It serves on the first side again, and nothing is left on the other one."""
    if way == WARM:
        sides.vcrecovery("move", NAME, "--to", "sec1")
    else:
        sides.second.lxc("stop", "--force", NAME)
        sides.first.lxc("start", NAME)
    sides.second.lxc("delete", "--force", NAME)
