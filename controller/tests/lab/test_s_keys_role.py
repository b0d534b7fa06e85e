"""The role `primary`: the key of a sync. A rehearsal makes none, and a second run changes nothing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from vcrecovery_lab.layout import CHECKOUT

from .role_plays import plays

pytestmark = pytest.mark.lab


def test_a_rehearsal_makes_no_key_and_a_run_makes_one(tmp_path: Path) -> None:
    here, there = tmp_path / "primary", tmp_path / "secondary"
    facts = {
        "primary_service": "web",
        "primary_config_dir": str(here),
        "primary_secondary_host": "localhost",
        "primary_secondary_config_dir": str(there),
        "primary_secondary_venv": "/opt/vcrecovery",
        "primary_secondary_state_dir": "/var/lib/vcrecovery",
        "primary_plan": {"services": {"web": {"primary": {"address": "192.0.2.10"}}}},
    }
    tasks = [{"ansible.builtin.include_tasks": str(CHECKOUT / "roles/primary/tasks/keys.yml")}]
    file = tmp_path / "play.yml"
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": facts, "tasks": tasks}
    file.write_text(json.dumps([play]))
    changed = plays(file, "localhost,")
    assert changed("--check") == 0
    assert not here.exists()
    (there / "receiver").mkdir(parents=True)
    keys = there / "receiver/authorized_keys"
    keys.touch()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", there / "receiver/host_key"], check=True)
    assert changed("--check") == 0
    assert keys.read_text() == ""
    assert changed() == 2
    assert (here / "sync_key").stat().st_mode & 0o777 == 0o600
    assert keys.read_text().startswith('restrict,from="192.0.2.10",command="/opt/vcrecovery/bin/vcrecovery receive web')
    assert changed() == 0
    assert changed("--check") == 0
