"""A standby on btrfs: made, filled, restored, promoted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from .conftest import Lab
from .own_standby import own_standby, pool

pytestmark = pytest.mark.lab


def test_btrfs(lab: Lab, tmp_path: Path) -> None:
    points = {"keep": 1, "every": "1h"}
    with (
        pool(lab, "vcrt-btrfs", "btrfs", size="1GiB") as name,
        own_standby(lab, "vcrt-b", name, tmp_path, restore_points=points) as standby,
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
