"""The ways to move it: each begins where it serves on the first side, and ends where it does on the second one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vcrecovery.plan.load import load_plan
from vcrecovery.plan.places import place
from vcrecovery.standby.container import config_of, devices_of, secondary_of
from vcrecovery_lab.run import run

from .sides import NAME, NEW, PATIENCE, Sides

WARM, STOPPED, RSYNC = "vcrecovery move", "LXD: stop, copy, start", "rsync twice"
#: In another network than the others.
STATEFUL = "vcrecovery move --how stateful"
_RSYNC = ["rsync", "-aHAXS", "--numeric-ids", "--delete"]


def _config(sides: Sides) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Of the container there, as the plan has it."""
    plan = load_plan(sides.plan)
    place(plan, NAME, "sec2")
    service = plan.services[NAME]
    secondary = secondary_of(plan, service)
    return config_of(service, secondary, ()), devices_of(service, secondary)


def warm(sides: Sides) -> None:
    sides.vcrecovery("move", NAME, "--to", "sec2")


def stop_copy_start(sides: Sides) -> None:
    """As whoever has LXD alone does it."""
    config, devices = _config(sides)
    sides.first.lxc("stop", NAME)
    sides.second.server.pull(sides.first.server, NAME, config, devices, PATIENCE)
    sides.second.lxc("start", NAME)
    sides.serves(NEW)


def rsync_twice(sides: Sides) -> None:
    """The container is there already, and empty."""
    here, there = (f"{sides.tree(lxd)}/" for lxd in (sides.first, sides.second))
    run([*_RSYNC, here, there], timeout=PATIENCE)
    sides.first.lxc("stop", NAME)
    run([*_RSYNC, here, there], timeout=PATIENCE)
    sides.second.lxc("start", NAME)
    sides.serves(NEW)


WAYS: Mapping[str, Callable[[Sides], None]] = {WARM: warm, STOPPED: stop_copy_start, RSYNC: rsync_twice}


def prepare(sides: Sides, way: str) -> None:
    """Nothing is on the other side; for rsync, an empty container whose owners LXD maps already."""
    if way != RSYNC:
        return
    config, devices = _config(sides)
    sides.second.server.pull(sides.first.server, NAME, config, devices, PATIENCE)
    tree = sides.tree(sides.second)
    run(["find", tree, "-mindepth", "1", "-delete"], timeout=PATIENCE)


def go_back(sides: Sides, way: str) -> None:
    """It serves on the first side again, and nothing is left on the other one."""
    if way == WARM:
        sides.vcrecovery("move", NAME, "--to", "sec1")
    else:
        sides.second.lxc("stop", "--force", NAME)
        sides.first.lxc("start", NAME)
    sides.second.lxc("delete", "--force", NAME)
