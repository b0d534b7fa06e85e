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
        "primary_places": [{"name": "sec1", "host": "localhost", "alias": "vcrecovery-receiver"}],
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


PLAN = {
    "services": {
        "web": {
            "primary": {"address": "192.0.2.10"},
            "standby": {"secondary": "sec1", "address": "10.20.0.10"},
        }
    },
    "secondaries": {
        "sec1": {"receiver": {"address": "192.0.2.1", "port": 8022}},
        "sec2": {"receiver": {"address": "192.0.2.2", "port": 8022}},
    },
}
SPARE = {"secondary": "sec2", "address": "10.21.0.10"}
#: Of the role, written where the test reads it.
WRITTEN = {"ssh_config": "ssh_config.j2", "known_hosts": "known_hosts.j2"}


@pytest.mark.parametrize("spare", [None, SPARE])
def test_a_vm_knows_the_secondary_of_its_spare(tmp_path: Path, spare: dict[str, str] | None) -> None:
    role, there = CHECKOUT / "roles/primary", tmp_path / "etc"
    (there / "receiver").mkdir(parents=True)
    (there / "receiver/authorized_keys").touch()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", there / "receiver/host_key"], check=True)
    plan = json.loads(json.dumps(PLAN))
    if spare is not None:
        plan["services"]["web"]["standby"]["spare"] = spare
    facts = {
        "primary_service": "web",
        "primary_config_dir": str(tmp_path / "vm"),
        "primary_secondary_host": "localhost",
        "primary_spare_host": "localhost",
        "primary_secondary_config_dir": str(there),
        "primary_secondary_venv": "/opt/vcrecovery",
        "primary_secondary_state_dir": "/var/lib/vcrecovery",
        "primary_plan": plan,
    }
    tasks = [
        {"ansible.builtin.include_vars": str(role / "vars/main.yml")},
        {"ansible.builtin.include_tasks": str(role / "tasks/keys.yml")},
        *(
            {"ansible.builtin.template": {"src": str(role / "templates" / source), "dest": str(tmp_path / name)}}
            for name, source in WRITTEN.items()
        ),
        {
            "ansible.builtin.copy": {
                "content": "{{ primary_receivers | map(attribute='name') | list | to_json }}",
                "dest": str(tmp_path / "receivers"),
            }
        },
    ]
    file = tmp_path / "play.yml"
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": facts, "tasks": tasks}
    file.write_text(json.dumps([play]))
    plays(file, "localhost,")()
    key = " ".join((there / "receiver/host_key.pub").read_text().split()[:2])
    aliases = ["vcrecovery-receiver", *(["vcrecovery-receiver-sec2"] if spare else [])]
    assert (tmp_path / "known_hosts").read_text() == "".join(f"{alias} {key}\n" for alias in aliases)
    assert json.loads((tmp_path / "receivers").read_text()) == (["sec1", "sec2"] if spare else [])
    assert len((there / "receiver/authorized_keys").read_text().splitlines()) == 1
    led = {
        host: subprocess.run(
            ["ssh", "-G", "-F", tmp_path / "ssh_config", host], check=True, capture_output=True, text=True
        ).stdout.splitlines()
        for host in ("receiver", "receiver-sec2")
    }
    assert {"hostname 192.0.2.1", "port 8022", "hostkeyalias vcrecovery-receiver"} <= set(led["receiver"])
    if spare:
        there_too = {"hostname 192.0.2.2", "hostkeyalias vcrecovery-receiver-sec2", "stricthostkeychecking true"}
        assert there_too <= set(led["receiver-sec2"])
