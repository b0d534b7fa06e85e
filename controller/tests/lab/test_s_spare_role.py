"""The role `secondary` on a host that is a spare and nothing else: its tasks, on a real LXD."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.ports import free_port
from vcrecovery_lab.private_lxd import PrivateLxd

from .flavours import chosen
from .role_plays import lxd_from, plays

pytestmark = pytest.mark.lab

POOL = "vcrlab-role"


def playbook(port: int, lxd: PrivateLxd) -> list[dict[str, object]]:
    role = CHECKOUT / "roles/secondary"
    network = {"bridge": POOL, "address": "10.211.25.1/24"}
    standby = {"secondary": "sec1", "address": "10.20.0.10"}
    plan = {
        "services": {
            "web": {"standby": {**standby, "spare": {"secondary": "sec2", "address": "10.211.25.10"}}},
            "db": {"standby": standby},
        },
        "secondaries": {"sec2": {"storage_pool": POOL, "network": network, "receiver": {"address": "127.0.0.1"}}},
    }
    tasks = [
        {"ansible.builtin.include_vars": str(role / "vars/main.yml")},
        {"ansible.builtin.assert": {"that": "secondary_copied_services == ['web']"}},
        {"ansible.builtin.include_tasks": str(role / "tasks/spare.yml")},
    ]
    given = {"secondary_plan": plan, "secondary_name": "sec2", "secondary_https_address": f"127.0.0.1:{port}"}
    given |= {"secondary_lxd_from": lxd_from(lxd)}
    return [{"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": given, "tasks": tasks}]


def test_a_spare_gets_its_pool_its_network_and_a_port(tmp_path: Path) -> None:
    port, file = free_port(), tmp_path / "play.yml"
    lxd = PrivateLxd(POOL, chosen())
    file.write_text(json.dumps(playbook(port, lxd)))
    try:
        lxd.start()
        changed = plays(file, "localhost,", lxd)

        assert changed("--check") == 0
        assert lxd.server.pool_driver(POOL) is None
        assert changed() == 3
        assert changed() == 0
        assert lxd.server.pool_driver(POOL) == "dir"
        assert lxd.server.network_exists(POOL)
        assert lxd.lxc("config", "get", "core.https_address").strip() == f"127.0.0.1:{port}"
    finally:
        lxd.close()
