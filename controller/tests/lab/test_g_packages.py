"""A running standby is started anew after a package run on its primary; real LXD."""

from __future__ import annotations

from pathlib import Path

import pytest

from vcrecovery.drivers.clock import SystemClock
from vcrecovery.plan.load import load_plan
from vcrecovery.standby.package_changes import Settling
from vcrecovery.standby.package_watch import PackageWatch
from vcrecovery_lab.run import run

from .conftest import Lab
from .own_standby import own_standby
from .waiting import wait_for

pytestmark = pytest.mark.lab

STATUS = "Package: web\nStatus: install ok installed\nArchitecture: all\nVersion: {}\n"


def started(name: str) -> str:
    """When the container's init began, in the kernel's ticks."""
    pid = run(["lxc", "query", f"/1.0/instances/{name}/state"], timeout=20).stdout.partition('"pid": ')[2].split(",")[0]
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


def test_a_running_standby_follows_the_packages(lab: Lab, tmp_path: Path) -> None:
    with own_standby(lab, "vcrt-packages", lab.layout.pool, tmp_path) as standby:
        standby.make_source()
        database = standby.source / "var/lib/dpkg/status"
        database.parent.mkdir(parents=True)
        database.write_text(STATUS.format(1))
        assert standby.apply()
        assert standby.sync().returncode == 0
        standby.lxd.start(standby.name, 30)
        watch = PackageWatch(
            load_plan(standby.plan), {"sec1": standby.lxd}, SystemClock(), lambda: Settling(settle=1, patience=30)
        )
        assert watch.look(standby.name) is None
        before = started(standby.name)
        database.write_text(STATUS.format(2))
        assert standby.sync().returncode == 0
        said: list[str] = []

        def look() -> bool:
            said.append(watch.look(standby.name) or "")
            return bool(said[-1])

        wait_for(look, "the restart")
        assert said[-1] == "vcrt-packages: 1 packages have changed (web); the standby was restarted"
        assert started(standby.name) != before
        assert watch.look(standby.name) is None
        # A command in the container, as the choice `units` runs it.
        standby.lxd.execute(standby.name, ["/bin/sh", "-c", "echo here > /www/said"], 20)
        assert (standby.rootfs / "www/said").read_text() == "here\n"
