"""The role `secondary` sets CRIU up for moves that keep memory, and tells controllers: real LXD, real CRIU."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from vcrecovery.standby.container import ACTIVE, ROLE_KEY
from vcrecovery_lab.busybox_tree import give_away, plant
from vcrecovery_lab.criu import criu_folder
from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.private_lxd import PrivateLxd

from .role_plays import plays
from .small_site import INIT

pytestmark = pytest.mark.lab

POOL, UNIT = "vcrlab-criu", "lxd.service"


def play(folder: Path, *, wanted: bool, supervisor: str = "process", lxd_dir: str = "") -> list[dict[str, object]]:
    role = CHECKOUT / "roles/secondary"
    facts = {
        "secondary_plan": {"services": {}, "secondaries": {"sec1": {}}},
        "secondary_name": "sec1",
        "secondary_lxd_from": "package",
        "secondary_stateful_moves": wanted,
        "secondary_criu_packages": [],
        "secondary_criu_dir": str(folder),
        "secondary_supervisor": supervisor,
        "secondary_lxd_dir": lxd_dir,
    }
    tasks = [
        {"ansible.builtin.include_vars": str(role / "vars/main.yml")},
        {"ansible.builtin.include_tasks": str(role / "tasks/checkpoints.yml")},
    ]
    return [{"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": facts, "tasks": tasks}]


def test_controllers_are_told_whether_criu_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, folder = tmp_path / "play.yml", tmp_path / "programs"
    folder.mkdir()
    # Where plays look for a role's files.
    (tmp_path / "files").symlink_to(CHECKOUT / "roles/secondary/files")
    lxd = PrivateLxd(POOL)
    changed = plays(file, "localhost,", lxd)

    def told() -> str:
        return lxd.lxc("project", "get", "default", "user.vcrecovery.criu").strip()

    try:
        lxd.start()
        file.write_text(json.dumps(play(folder, wanted=False)))
        assert changed() == 0
        file.write_text(json.dumps(play(folder, wanted=True)))
        assert changed() == 2
        assert told().startswith("failed ")
        assert "is not installed" in told()
        monkeypatch.setenv("PATH", f"{criu_folder()}{os.pathsep}{os.environ['PATH']}")
        assert changed() == 1
        word, _, kernel = told().split()
        assert (word, kernel) == ("ok", os.uname().release)
        assert changed() == 0
        assert lxd.server.says_of_checkpoints() == told()
        file.write_text(json.dumps(play(folder, wanted=False)))
        assert changed() == 1
        assert told() == ""
    finally:
        lxd.close()


class OwnEnvironment(PrivateLxd):
    """`told`: what its unit says of its environment."""

    told: Mapping[str, str] = {}

    def environment(self) -> Mapping[str, str]:
        return {**super().environment(), **self.told}


def owners_are_mapped(lxd: PrivateLxd) -> bool:
    features = json.loads(lxd.lxc("query", "/1.0"))["environment"]["kernel_features"]
    return bool(features["idmapped_mounts"] == "true")


def test_lxd_writes_the_owners_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its unit is told so, and restarted once nothing serves; a systemctl of the test's stands for systemd."""
    file, folder, units = tmp_path / "play.yml", tmp_path / "programs", tmp_path / "units"
    for place in (folder, units, tmp_path / "bin"):
        place.mkdir()
    (tmp_path / "files").symlink_to(CHECKOUT / "roles/secondary/files")
    calls = tmp_path / "calls"
    script = f"""#!/bin/sh
echo "$*" >> {calls}
case "$1" in show) printf 'ActiveState=active\\nUnitFileState=enabled\\nNeedDaemonReload=no\\n';; esac
"""
    (tmp_path / "bin/systemctl").write_text(script)
    (tmp_path / "bin/systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}")
    lxd = OwnEnvironment(POOL)
    plays_it = plays(file, "localhost,", lxd)
    there = {"supervisor": "systemd", "lxd_dir": str(lxd.folder)}

    def changed() -> tuple[int, list[str]]:
        """How many tasks have, and what systemd was asked to do."""
        calls.write_text("")
        count = plays_it("--extra-vars", json.dumps({"secondary_units_dir": str(units)}))
        return count, [
            line for line in calls.read_text().splitlines() if line.split()[0] in ("daemon-reload", "restart")
        ]

    try:
        lxd.start()
        if not owners_are_mapped(lxd):
            pytest.skip("the kernel here maps no owners")
        lxd.server.create_pool(POOL)
        lxd.server.create_empty("web", {ROLE_KEY: ACTIVE}, {"root": {"type": "disk", "path": "/", "pool": POOL}})
        plant(lxd.server.rootfs(POOL, "web"), {"sbin/init": INIT.format(serve="")}, [])
        give_away(lxd.server.rootfs(POOL, "web"))
        lxd.lxc("start", "web")
        file.write_text(json.dumps(play(folder, wanted=True, **there)))
        count, asked = changed()
        assert (count, asked) == (4, ["daemon-reload"])
        assert changed() == (0, [])
        lxd.lxc("stop", "--force", "web")
        assert changed() == (1, ["daemon-reload", f"restart {UNIT}"])
        drop_in = units / f"{UNIT}.d/vcrecovery-criu.conf"
        lxd.told = dict(
            line.partition("=")[2].split("=", 1)
            for line in drop_in.read_text().splitlines()
            if line.startswith("Environment=")
        )
        lxd.kill()
        lxd.start()
        assert not owners_are_mapped(lxd)
        lxd.lxc("start", "web")
        assert lxd.server.must_get("web").config["volatile.last_state.idmap"] != "[]"
        assert changed() == (0, [])
        file.write_text(json.dumps(play(folder, wanted=False, **there)))
        count, asked = changed()
        assert (asked, drop_in.exists()) == (["daemon-reload"], False)
    finally:
        lxd.close()
