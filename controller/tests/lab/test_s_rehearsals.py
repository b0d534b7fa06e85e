"""Rehearsals (`--check`) of roles on hosts that have nothing yet: they go through, and change nothing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from vcrecovery_lab.layout import CHECKOUT

from .role_plays import plays

pytestmark = pytest.mark.lab


def test_a_rehearsal_of_the_fencing_account_makes_none(tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True, timeout=30)
    facts = {"hypervisor_fencing_keys": [key.with_suffix(".pub").read_text()]}
    tasks = [{"ansible.builtin.include_tasks": str(CHECKOUT / "roles/hypervisor/tasks/fencing.yml")}]
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": facts, "tasks": tasks}
    file = tmp_path / "play.yml"
    file.write_text(json.dumps([play]))
    accounts = Path("/etc/passwd").read_bytes()
    assert plays(file, "localhost,")("--check") == (b"\nvcrecovery:" not in accounts)
    assert Path("/etc/passwd").read_bytes() == accounts


def test_a_rehearsal_of_the_controller_makes_nothing(tmp_path: Path) -> None:
    folders = ("venv", "config_dir", "command_dir", "man_dir", "completion_dir", "run_dir", "log_dir")
    plan = {"services": {"web": {}}, "notify": {"all": {}}, "state_dir": str(tmp_path / "state")}
    facts = {
        **{f"controller_{name}": str(tmp_path / name) for name in folders},
        "controller_packages": [],
        "controller_plan": plan,
        "controller_notify_urls": {"all": ["mailto://user:secret@example.net"]},
        "controller_supervisor": "process",
    }
    role = {"ansible.builtin.include_role": {"name": "vcrecovery.standby.controller"}}
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": facts, "tasks": [role]}
    file = tmp_path / "play.yml"
    file.write_text(json.dumps([play]))
    assert plays(file, "localhost,")("--check") > 0
    assert list(tmp_path.iterdir()) == [file]
