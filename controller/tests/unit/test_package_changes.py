"""A running standby follows its primary's packages: when, how often, and what is restarted."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from set_clock import SetClock

from vcrecovery.drivers.lxd import Instance
from vcrecovery.errors import BusyError, ExternalError
from vcrecovery.plan.model import Plan
from vcrecovery.standby.container import ROLE_KEY
from vcrecovery.standby.package_changes import read_packages, units_of
from vcrecovery.standby.package_watch import PackageWatch
from vcrecovery.store.lock import service_lock
from vcrecovery.transfer.rootfs import Rootfs

STANZA = "Package: {}\nStatus: install ok {}\nArchitecture: amd64\nVersion: {}\n\n"


#: As before version 254, which refuses to try a restart of what is masked.
SYSTEMCTL = """#!/bin/sh
state=loaded
for word do [ "$word" != "$MASKED" ] || state=masked; done
if [ "$1" = show ]; then echo "LoadState=$state"; exit; fi
echo "systemctl $*"
[ $state = loaded ]
"""


class FakeLxd:
    """One container, and what was done to it."""

    is_here = True
    masked = ""

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
        """Carried out here, by a `systemctl` that says what it was told, and refuses what is masked."""
        folder = self.tree.parent / "bin"
        folder.mkdir(exist_ok=True)
        (folder / "systemctl").write_text(SYSTEMCTL)
        (folder / "systemctl").chmod(0o755)
        told = {"PATH": str(folder), "MASKED": self.masked}
        done = subprocess.run(command, env=told, capture_output=True, text=True, check=False)
        self.did += done.stdout.splitlines()
        if done.returncode:
            raise ExternalError("systemctl failed")


class Environment:
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
def env(tmp_path: Path) -> Environment:
    env = Environment(tmp_path)
    env.pass_time(60)
    assert env.lxd.did == []
    return env


def test_a_burst_of_changes_makes_one_restart(env: Environment) -> None:
    for version in range(2, 12):
        env.install(nginx=str(version), bash="5")
        env.pass_time(10)
    assert env.lxd.did == []
    env.pass_time(40)
    assert env.lxd.did == ["restart"]
    env.pass_time(300)
    assert env.lxd.did == ["restart"]


def test_changes_that_never_end_are_not_waited_for_for_ever(env: Environment) -> None:
    for version in range(2, 150):
        env.install(nginx=str(version), bash="5")
        env.pass_time(5)
    assert env.lxd.did == ["restart"]


def test_a_controller_that_starts_anew_forgets_nothing(env: Environment) -> None:
    env.restart_controller()
    env.install(nginx="2", bash="5")
    env.pass_time(40)
    assert env.lxd.did == ["restart"]


def test_only_the_units_of_the_changed_packages(tmp_path: Path) -> None:
    env = Environment(tmp_path, "units")
    info = env.tree / "var/lib/dpkg/info"
    (info / "nginx.list").write_text("/.\n/lib/systemd/system/nginx.service\n/usr/sbin/nginx\n/etc/x.service\n")
    (info / "bash.list").write_text("/.\n/lib/systemd/system/other.service\n/lib/systemd/system/--evil; x.service\n")
    env.pass_time(5)
    env.install(nginx="2", bash="5")
    env.pass_time(40)
    assert env.lxd.did == ["systemctl daemon-reload", "systemctl try-restart -- nginx.service"]
    assert units_of(Rootfs(env.tree, []), ["bash:amd64"]) == ["other.service"]


def test_what_is_masked_in_the_standby_is_not_restarted(tmp_path: Path) -> None:
    """It would be refused, and all others would be restarted again and again."""
    env = Environment(tmp_path, "units")
    for name in ("nginx", "chrony"):
        (env.tree / f"var/lib/dpkg/info/{name}.list").write_text(f"/lib/systemd/system/{name}.service\n")
    env.lxd.masked = "chrony.service"
    env.pass_time(5)
    env.install(nginx="2", bash="5", chrony="1")
    env.pass_time(300)
    assert env.lxd.did == ["systemctl daemon-reload", "systemctl try-restart -- nginx.service"]
    env.install(nginx="2", bash="5", chrony="2")
    env.pass_time(300)
    assert env.lxd.did[2:] == ["systemctl daemon-reload"]


def test_one_that_serves_is_stopped_or_frozen_is_left_alone(env: Environment) -> None:
    assert env.lxd.instance is not None
    env.install(nginx="2", bash="5")
    running = env.lxd.instance
    for instance in (
        replace(running, running=False, status="Stopped"),
        replace(running, config={ROLE_KEY: "active"}),
        None,
    ):
        env.lxd.instance = instance
        env.pass_time(100)
        assert env.lxd.did == []


def test_nothing_happens_under_a_failover(env: Environment) -> None:
    env.install(nginx="2", bash="5")
    env.pass_time(25)
    with service_lock(env.plan.state_dir, "web"):
        env.clock.sleep(30)
        with pytest.raises(BusyError):
            env.watch.look("web")
    assert env.lxd.did == []
    env.pass_time(40)
    assert env.lxd.did == ["restart"]


def test_an_upgrade_half_way_and_a_reordered_file(env: Environment) -> None:
    packages = read_packages(Rootfs(env.tree, []))
    env.install(bash="5", nginx="1")
    assert read_packages(Rootfs(env.tree, [])) == packages
    env.install("half-configured", bash="5", nginx="1")
    assert read_packages(Rootfs(env.tree, [])) != packages


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


def test_a_database_larger_than_memory_is_none(env: Environment) -> None:
    with (env.tree / "var/lib/dpkg/status").open("wb") as database:
        database.truncate(2**40)
    env.pass_time(100)
    assert env.lxd.did == []


def test_what_is_no_package_ends_no_watch(tmp_path: Path) -> None:
    """The primary writes the names, and the lists of files."""
    env = Environment(tmp_path, "units")
    info = env.tree / "var/lib/dpkg/info"
    (info / "nginx.list").write_bytes(b"/lib/systemd/system/nginx.service\n/srv/\xff\n")
    (info / "huge.list").write_bytes(b"/lib/systemd/system/huge.service\n")
    os.truncate(info / "huge.list", 2**40)
    (tmp_path / "outside.list").write_text("/lib/systemd/system/outside.service\n")
    env.pass_time(5)
    env.install(**{"nginx": "2", "bash": "5", "huge": "1", "no\0thing": "1", "../../../../../outside": "1"})
    env.pass_time(40)
    assert env.lxd.did == ["systemctl daemon-reload", "systemctl try-restart -- nginx.service"]


def test_a_clock_that_is_set_neither_hurries_nor_delays_a_restart(env: Environment) -> None:
    env.install(nginx="2", bash="5")
    env.pass_time(10)
    env.clock.set_by = -86400.0
    env.pass_time(10)
    env.clock.set_by = 86400.0
    env.pass_time(5)
    assert env.lxd.did == []
    env.clock.set_by = -86400.0
    env.pass_time(30)
    assert env.lxd.did == ["restart"]


def test_a_full_disk_does_not_restart_a_standby_again_and_again(env: Environment) -> None:
    notes = env.plan.state_dir / "packages"
    (notes / "web.new").mkdir()
    env.install(nginx="2", bash="5")
    with pytest.raises(ExternalError, match="cannot be used"):
        env.pass_time(40)
    env.pass_time(300)
    assert env.lxd.did == ["restart"]
