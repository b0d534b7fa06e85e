"""A standby on btrfs: made, filled, restored, promoted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from vcrecovery.errors import ExitCode

from .conftest import Lab
from .own_standby import Ground, own_standby, pool
from .waiting import wait_for

pytestmark = pytest.mark.lab


def test_btrfs(ground: Ground, tmp_path: Path) -> None:
    points = {"keep": 1, "every": "1h"}
    with (
        pool(ground, "vcrt-btrfs", "btrfs", size="1GiB") as name,
        own_standby(ground, "vcrt-b", name, tmp_path, restore_points=points) as standby,
    ):
        standby.make_source()
        assert "container vcrt-b created" in standby.apply()
        assert standby.apply() == "vcrt-b: nothing to do"
        assert standby.sync().returncode == 0
        assert " made" in standby.vcrecovery("standby", "snapshot").stdout
        (standby.source / "www/index.html").write_text("corrupt\n")
        assert standby.sync().returncode == 0
        done = standby.fail_over("--restore-point", "latest")
        assert done.returncode == 0, done.stderr
        assert standby.inside("cat", "/www/index.html") == "one\n"
        assert "nothing to do" in standby.fail_over().stdout


def test_a_database_that_is_copied_as_files_is_a_warning(lab: Lab) -> None:
    plan = lab.layout.plan_file
    folder = lab.rootfs / "var/lib/mysql"
    assert not folder.exists(), "the lab's primary has no database"
    folder.mkdir()
    try:
        (folder / "ibdata1").write_text("x")
        done = lab.vcrecovery("plan", "check", "--online")
        assert f"{plan}: warning: services.web.sync: /var/lib/mysql (MySQL or MariaDB)" in done.stdout
        as_json = json.loads(lab.vcrecovery("plan", "check", "--online", "--json").stdout)
        assert len(as_json["warnings"]) == 1
        assert (done.returncode == 0) == as_json["ok"]
    finally:
        shutil.rmtree(folder)
    assert "warning" not in lab.vcrecovery("plan", "check", "--online").stdout


def test_a_standby_takes_no_more_than_its_limits(ground: Ground, tmp_path: Path) -> None:
    limits = {"cpu": 1, "memory": "128MiB", "processes": 40, "disk": "100MiB"}
    with (
        pool(ground, "vcrt-limits", "btrfs", size="1GiB") as name,
        own_standby(ground, "vcrt-l", name, tmp_path, limits=limits) as standby,
    ):
        standby.make_source()
        standby.apply()
        assert standby.apply() == "vcrt-l: nothing to do"
        assert standby.sync().returncode == 0
        done = standby.fail_over()
        assert done.returncode == 0, done.stderr

        def tried(script: str) -> subprocess.CompletedProcess[str]:
            return ground.lxc("exec", "vcrt-l", "--", "/bin/busybox", "sh", "-c", script, timeout=100, check=False)

        assert tried("/bin/busybox nproc").stdout.strip() == "1"
        assert tried("/bin/busybox dd if=/dev/urandom of=/www/large bs=1M count=50").returncode == 0
        full = tried("/bin/busybox dd if=/dev/urandom of=/www/larger bs=1M count=200; /bin/busybox sync")
        assert full.returncode != 0 or (standby.rootfs / "www/larger").stat().st_size < 100 << 20, full.stderr
        many = tried("i=0; while [ $i -lt 100 ]; do /bin/busybox sleep 3 & i=$((i+1)); done; wait")
        assert "fork" in many.stderr, many.stderr
        # The shell has given up, and its children are still there.
        wait_for(lambda: tried("exit 0").returncode == 0, "room for a process")
        hungry = tried("/bin/busybox dd if=/dev/zero of=/dev/null bs=400M count=1")
        assert hungry.returncode != 0
        # The neighbours, and LXD, go on.
        assert standby.inside("cat", "/www/index.html") == "one\n"
        # As full as it is, LXD might not note that.
        (standby.rootfs / "www/larger").unlink()
        standby.stand_by_again()
        # What the plan does not limit any more is not.
        standby.write_plan(limits={"cpu": 2})
        assert "set to the plan" in standby.apply()
        found = standby.instance
        assert (found.config.get("limits.cpu"), found.config.get("limits.memory")) == ("2", None)
        assert "size" not in found.devices["root"]


def test_a_container_without_any_room_is_stopped_and_tells_the_way_out(ground: Ground, tmp_path: Path) -> None:
    """LXD stops one and calls that a failure: it cannot change the owner of a folder there, nor what it notes of it."""
    with (
        pool(ground, "vcrt-brim", "btrfs", size="1GiB") as name,
        own_standby(ground, "vcrt-br", name, tmp_path, limits={"disk": "60MiB"}) as standby,
    ):
        standby.make_source()
        standby.apply()
        assert standby.sync().returncode == 0
        done = standby.fail_over()
        assert done.returncode == 0, done.stderr
        large = standby.rootfs / "www/large"
        large.write_bytes(os.urandom(20 << 20))
        os.sync()
        # Less than it has: a full one may have room for LXD's notes left, and this one has none.
        ground.lxc("config", "device", "set", standby.name, "root", "size=10MiB", check=False)
        standby.stop()
        assert standby.instance.status == "Stopped"
        done = standby.vcrecovery("standby", "reset", standby.name)
        assert done.returncode == ExitCode.EXTERNAL
        assert "quota exceeded" in done.stderr.lower()
        assert done.stderr.endswith("remove what it can spare, then run it again\n"), done.stderr
        large.unlink()
        os.sync()
        standby.stand_by_again()
        standby.apply()
        done = standby.fail_over()
        assert done.returncode == 0, done.stderr


def test_a_primary_that_fills_its_standby_leaves_room_for_the_others(ground: Ground, tmp_path: Path) -> None:
    """A primary in an attacker's hands sends without end: its own quota is full, and the pool is not."""
    (tmp_path / "attacker").mkdir()
    (tmp_path / "neighbour").mkdir()
    with (
        pool(ground, "vcrt-full", "btrfs", size="600MiB") as name,
        own_standby(ground, "vcrt-fa", name, tmp_path / "attacker", limits={"disk": "60MiB"}) as attacker,
        own_standby(ground, "vcrt-fn", name, tmp_path / "neighbour") as neighbour,
    ):
        for standby in (attacker, neighbour):
            standby.make_source()
            standby.apply()
            assert standby.sync().returncode == 0
        for number in range(10):
            (attacker.source / f"www/{number}").write_bytes(os.urandom(50 << 20))
        full = attacker.sync()
        assert full.returncode != 0
        assert "quota" in full.stderr.lower() or "no space" in full.stderr.lower(), full.stderr
        (neighbour.source / "www/index.html").write_text("two\n")
        (neighbour.source / "www/new").write_bytes(os.urandom(20 << 20))
        done = neighbour.sync()
        assert done.returncode == 0, done.stderr
        assert (neighbour.rootfs / "www/index.html").read_text() == "two\n"
        # What was too much goes, and the sync is well again.
        for number in range(10):
            (attacker.source / f"www/{number}").unlink()
        assert attacker.sync().returncode == 0
