"""The lab's site is laid out as somebody without a clone does it: an archive, an inventory, three commands."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vcrecovery_lab.built_collection import BuiltCollection
from vcrecovery_lab.lab import down, ground, site_variables
from vcrecovery_lab.layout import CHECKOUT, Layout
from vcrecovery_lab.machine import create
from vcrecovery_lab.pair.waiting import wait_until
from vcrecovery_lab.progress import stderr_progress
from vcrecovery_lab.run import LabError, run

from .plays import Played, play

INVENTORY = CHECKOUT / "controller/lab/inventory/hosts.yml"
#: Seconds.
SITE, PROTECTED = 900.0, 300.0


@dataclass(frozen=True)
class Installed:
    """Seconds of each command, and of what is waited for after the last one."""

    collection: float
    first: Played
    protected: float
    second: Played

    @property
    def seconds(self) -> float:
        return self.collection + self.first.seconds + self.protected


def installed(layout: Layout, folder: Path) -> Installed:
    """The VM runs before, as an operator's does. Raises LabError where the lab is up."""
    if layout.root.exists():
        raise LabError("the lab is up; `make lab-down` removes it")
    try:
        image, accel = ground(layout)
        with stderr_progress("the VM, which is there before"):
            create(layout.primary(), image, accel, layout.machines)
        built = BuiltCollection(folder)
        built.build()
        with stderr_progress("ansible-galaxy collection install"):
            collection = _seconds(built.install)
        venv = folder / "venv"
        words = ("-i", INVENTORY, *site_variables(image), "-e", f"controller_venv={venv}")
        with stderr_progress("ansible-playbook vcrecovery.standby.site"):
            first = play(built, "vcrecovery.standby.site", *words, timeout=SITE)
        with stderr_progress("vcrecovery status --check, until it is well"):
            protected = _seconds(lambda: _wait_until_protected(venv / "bin/vcrecovery", layout))
        with stderr_progress("the same playbook once more"):
            second = play(built, "vcrecovery.standby.site", *words, timeout=SITE)
        return Installed(collection, first, protected, second)
    finally:
        down(layout)


def _wait_until_protected(program: Path, layout: Layout) -> None:
    def is_well() -> bool:
        return run([program, "status", "--check", "--plan", layout.plan_file], timeout=60, check=False).returncode == 0

    wait_until(is_well, "the word of `vcrecovery status --check` that all is well", PROTECTED, 0.5)


def _seconds(act: Callable[[], None]) -> float:
    begun = time.monotonic()
    act()
    return time.monotonic() - begun
