"""The role `secondary` sets CRIU up for moves that keep memory, and tells controllers: real LXD, real CRIU."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from vcrecovery_lab.criu import criu_folder
from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.private_lxd import PrivateLxd

from .role_plays import plays

pytestmark = pytest.mark.lab

POOL = "vcrlab-criu"


def play(folder: Path, *, wanted: bool) -> list[dict[str, object]]:
    role = CHECKOUT / "roles/secondary"
    facts = {
        "secondary_plan": {"services": {}, "secondaries": {"sec1": {}}},
        "secondary_name": "sec1",
        "secondary_lxd_from": "package",
        "secondary_stateful_moves": wanted,
        "secondary_criu_packages": [],
        "secondary_criu_dir": str(folder),
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
