"""The role `secondary` for a controller on another machine: certificates on both sides, on a real LXD."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.lxd import LxdServer, OverHttps
from vcrecovery.errors import ExternalError
from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.ports import free_port
from vcrecovery_lab.private_lxd import PrivateLxd
from vcrecovery_lab.secondary_vm.certificate import make_certificate

from .flavours import chosen
from .role_plays import over_https, plays

pytestmark = pytest.mark.lab

POOL = "vcrlab-https"


def play(port: int, folder: Path, lxd: PrivateLxd) -> list[dict[str, object]]:
    role = CHECKOUT / "roles/secondary"
    tasks = [
        {"ansible.builtin.include_vars": str(role / "vars/main.yml")},
        {
            "ansible.builtin.assert": {
                "that": f"secondary_own_plan.secondaries.sec2.lxd == '{lxd.folder}/unix.socket'"
                " and secondary_own_plan.secondaries.sec2.receiver.address == '127.0.0.1'"
            }
        },
        {"ansible.builtin.include_tasks": str(role / "tasks/https.yml")},
    ]
    return [
        {
            "hosts": "sec2",
            "connection": "local",
            "gather_facts": False,
            "vars": over_https(port, folder, lxd),
            "tasks": tasks,
        }
    ]


def test_a_controller_elsewhere_is_let_in_and_nobody_else(tmp_path: Path) -> None:
    port, file, inventory = free_port(), tmp_path / "play.yml", tmp_path / "hosts"
    inventory.write_text("sec2\n[controllers]\nctl ansible_connection=local\n")
    lxd = PrivateLxd(POOL, chosen())
    (tmp_path / "etc").mkdir()
    file.write_text(json.dumps(play(port, tmp_path, lxd)))
    try:
        lxd.start()
        changed = plays(file, str(inventory), lxd)

        changed("--check")
        assert not (tmp_path / "controller").exists()
        assert lxd.lxc("config", "get", "core.https_address").strip() == ""
        assert changed() > 3
        assert changed() == 0
        assert changed("--check") == 0
        own = tmp_path / "controller"
        assert (own / "key").stat().st_mode & 0o777 == 0o600

        def server(certificate: Path, key: Path) -> LxdServer:
            url = f"https://127.0.0.1:{port}"
            return LxdServer("sec2", OverHttps(url, certificate, key, own / "server_certificate"), SystemClock())

        assert server(own / "certificate", own / "key").get("none") is None
        stranger = make_certificate(tmp_path, "stranger")
        with pytest.raises(ExternalError):
            server(*stranger).get("none")
        (trusted,) = json.loads(lxd.lxc("config", "trust", "list", "--format", "json"))
        assert (trusted["restricted"], trusted["projects"]) == (True, ["default"])
        # Somebody has got the key: it is replaced, and the old one is let in no more.
        for name in ("certificate", "key"):
            (own / name).rename(tmp_path / f"old-{name}")
        assert changed() > 2
        assert changed() == 0
        with pytest.raises(ExternalError):
            server(tmp_path / "old-certificate", tmp_path / "old-key").get("none")
        assert server(own / "certificate", own / "key").get("none") is None
        # What was let in by hand, without limits, is limited.
        (trusted,) = json.loads(lxd.lxc("config", "trust", "list", "--format", "json"))
        lxd.lxc("config", "trust", "remove", trusted["fingerprint"])
        lxd.lxc(*lxd.software.trust, str(own / "certificate"), "--name", "by-hand", "--type", "client")
        assert changed() == 2
        (trusted,) = json.loads(lxd.lxc("config", "trust", "list", "--format", "json"))
        assert (trusted["restricted"], trusted["projects"]) == (True, ["default"])
    finally:
        lxd.close()
