"""A running standby follows its primary's packages: when, how often, and what is restarted."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from set_clock import SetClock

from vcrecovery.drivers.lxd import Instance
from vcrecovery.errors import BusyError, OutsideError
from vcrecovery.plan.model import Plan
from vcrecovery.standby.container import ROLE_KEY
from vcrecovery.standby.package_changes import read_packages, units_of
from vcrecovery.standby.package_watch import PackageWatch
from vcrecovery.store.lock import service_lock
from vcrecovery.transfer.rootfs import Rootfs

STANZA = "Package: {}\nStatus: install ok {}\nArchitecture: amd64\nVersion: {}\n\n"


class FakeLxd:
    """One container, and what was done to it."""

    is_here = True

    def __init__(self, rootfs: Path) -> None:
        self.tree, self.did = rootfs, list[str]()
        self.instance: Instance | None = Instance("web", True, "Running", {ROLE_KEY: "standby"}, {})

    def get(self, instance: str) -> Instance | None:
        return self.instance

    def rootfs(self, pool: str, instance: str) -> Path:
        return self.tree

    def restart(self, instance: str, timeout: float) -> None:
        self.did.append("restart")

    def execute(self, instance: str, command: Sequence[str], timeout: float) -> None:
        self.did.append(" ".join(command))


class World:
    """A watch over one running standby."""

    def __init__(self, folder: Path, choice: str = "restart") -> None:
        self.clock, self.lxd = SetClock(1000.0), FakeLxd(folder / "rootfs")
        service = {
            "primary": {"hypervisor": "h", "uuid": "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0001", "address": "10.0.0.1"},
            "standby": {"secondary": "s", "address": "10.1.0.2"},
            "ports": [80],
            "sync": {"on_package_change": choice},
        }
        network = {"bridge": "b", "address": "10.1.0.1/24"}
        self.plan = Plan.model_validate(
            {
                "version": 1,
                "state_dir": str(folder / "state"),
                "hypervisors": {"h": {}},
                "secondaries": {"s": {"network": network, "receiver": {"address": "10.0.0.2"}}},
                "services": {"web": service},
            }
        )
        self.tree = folder / "rootfs"
        (self.tree / "var/lib/dpkg/info").mkdir(parents=True)
        self.install(nginx="1", bash="5")
        self.restart_controller()

    def restart_controller(self) -> None:
        self.watch = PackageWatch(self.plan, {"s": self.lxd}, self.clock)

    def install(self, state: str = "installed", **versions: str) -> None:
        text = "".join(STANZA.format(name, state, version) for name, version in versions.items())
        (self.tree / "var/lib/dpkg/status").write_text(text)

    def pass_time(self, seconds: float) -> None:
        end = self.clock.time + seconds
        while self.clock.time < end:
            self.watch.look("web")
            self.clock.sleep(5)


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.pass_time(60)
    assert world.lxd.did == []
    return world


def test_a_burst_of_changes_makes_one_restart(world: World) -> None:
    for version in range(2, 12):
        world.install(nginx=str(version), bash="5")
        world.pass_time(10)
    assert world.lxd.did == []
    world.pass_time(40)
    assert world.lxd.did == ["restart"]
    world.pass_time(300)
    assert world.lxd.did == ["restart"]


def test_changes_that_never_end_are_not_waited_for_for_ever(world: World) -> None:
    for version in range(2, 150):
        world.install(nginx=str(version), bash="5")
        world.pass_time(5)
    assert world.lxd.did == ["restart"]


def test_a_controller_that_starts_anew_forgets_nothing(world: World) -> None:
    world.restart_controller()
    world.install(nginx="2", bash="5")
    world.pass_time(40)
    assert world.lxd.did == ["restart"]


def test_only_the_units_of_the_changed_packages(tmp_path: Path) -> None:
    world = World(tmp_path, "units")
    info = world.tree / "var/lib/dpkg/info"
    (info / "nginx.list").write_text("/.\n/lib/systemd/system/nginx.service\n/usr/sbin/nginx\n/etc/x.service\n")
    (info / "bash.list").write_text("/.\n/lib/systemd/system/other.service\n/lib/systemd/system/--evil; x.service\n")
    world.pass_time(5)
    world.install(nginx="2", bash="5")
    world.pass_time(40)
    assert world.lxd.did == ["systemctl daemon-reload", "systemctl try-restart -- nginx.service"]
    assert units_of(Rootfs(world.tree, []), ["bash:amd64"]) == ["other.service"]


def test_one_that_serves_is_stopped_or_frozen_is_left_alone(world: World) -> None:
    assert world.lxd.instance is not None
    world.install(nginx="2", bash="5")
    running = world.lxd.instance
    for instance in (
        replace(running, running=False, status="Stopped"),
        replace(running, config={ROLE_KEY: "active"}),
        None,
    ):
        world.lxd.instance = instance
        world.pass_time(100)
        assert world.lxd.did == []


def test_nothing_happens_under_a_failover(world: World) -> None:
    world.install(nginx="2", bash="5")
    world.pass_time(25)
    with service_lock(world.plan.state_dir, "web"):
        world.clock.sleep(30)
        with pytest.raises(BusyError):
            world.watch.look("web")
    assert world.lxd.did == []
    world.pass_time(40)
    assert world.lxd.did == ["restart"]


def test_an_upgrade_half_way_and_a_reordered_file(world: World) -> None:
    packages = read_packages(Rootfs(world.tree, []))
    world.install(bash="5", nginx="1")
    assert read_packages(Rootfs(world.tree, [])) == packages
    world.install("half-configured", bash="5", nginx="1")
    assert read_packages(Rootfs(world.tree, [])) != packages


def test_an_rpm_database_is_known_by_its_content(tmp_path: Path) -> None:
    database = tmp_path / "usr/lib/sysimage/rpm/rpmdb.sqlite"
    assert read_packages(Rootfs(tmp_path, [])) is None
    database.parent.mkdir(parents=True)
    database.write_bytes(b"one")
    first = read_packages(Rootfs(tmp_path, []))
    database.write_bytes(b"two")
    second = read_packages(Rootfs(tmp_path, []))
    assert first is not None
    assert second is not None
    assert first.fingerprint != second.fingerprint


def test_a_database_larger_than_memory_is_none(world: World) -> None:
    with (world.tree / "var/lib/dpkg/status").open("wb") as database:
        database.truncate(2**40)
    world.pass_time(100)
    assert world.lxd.did == []


def test_what_is_no_package_ends_no_watch(tmp_path: Path) -> None:
    """The primary writes the names, and the lists of files."""
    world = World(tmp_path, "units")
    info = world.tree / "var/lib/dpkg/info"
    (info / "nginx.list").write_bytes(b"/lib/systemd/system/nginx.service\n/srv/\xff\n")
    (info / "huge.list").write_bytes(b"/lib/systemd/system/huge.service\n")
    os.truncate(info / "huge.list", 2**40)
    (tmp_path / "outside.list").write_text("/lib/systemd/system/outside.service\n")
    world.pass_time(5)
    world.install(**{"nginx": "2", "bash": "5", "huge": "1", "no\0thing": "1", "../../../../../outside": "1"})
    world.pass_time(40)
    assert world.lxd.did == ["systemctl daemon-reload", "systemctl try-restart -- nginx.service"]


def test_a_clock_that_is_set_neither_hurries_nor_delays_a_restart(world: World) -> None:
    world.install(nginx="2", bash="5")
    world.pass_time(10)
    world.clock.set_by = -86400.0
    world.pass_time(10)
    world.clock.set_by = 86400.0
    world.pass_time(5)
    assert world.lxd.did == []
    world.clock.set_by = -86400.0
    world.pass_time(30)
    assert world.lxd.did == ["restart"]


def test_a_full_disk_does_not_restart_a_standby_again_and_again(world: World) -> None:
    notes = world.plan.state_dir / "packages"
    (notes / "web.new").mkdir()
    world.install(nginx="2", bash="5")
    with pytest.raises(OutsideError, match="cannot be used"):
        world.pass_time(40)
    world.pass_time(300)
    assert world.lxd.did == ["restart"]
