"""The playbook that replaces keys, where it can be known beforehand that it would leave somebody out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

CHECKOUT = Path(__file__).resolve().parents[3]
PLAYBOOK = CHECKOUT / "playbooks/keys_rotate.yml"
HERE = {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": "/usr/bin/python3"}
LEFT_OUT = (
    "no TSIG key is replaced: --limit leaves out ns2, which would refuse the next ones; run it again without --limit"
)


@pytest.mark.parametrize(
    ("limit", "left_out"), [("ns1", True), ("dns_servers", False), ("all", False), ("web1", False)]
)
def test_keys_of_name_servers_are_replaced_on_all_or_none(tmp_path: Path, limit: str, left_out: bool) -> None:
    own = tmp_path / "ansible_collections/vcrecovery/standby"
    own.mkdir(parents=True)
    for part in ("galaxy.yml", "meta", "plugins", "roles"):
        (own / part).symlink_to(CHECKOUT / part)
    plan: dict[str, Any] = {
        "dns": {"servers": {"ns1": {}, "ns2": {}}, "keys": {}, "zones": {}},
        "services": {},
        "secondaries": {},
    }
    groups: dict[str, Any] = {"dns_servers": {"hosts": {"ns1": {}, "ns2": {}}}, "primaries": {"hosts": {"web1": {}}}}
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(yaml.safe_dump({"all": {"children": groups, "vars": {"vcrecovery_plan": plan, **HERE}}}))
    words = ["-i", str(inventory), str(PLAYBOOK), "--tags", "dns", "--limit", limit]
    done = subprocess.run(
        [str(Path(sys.executable).with_name("ansible-playbook")), *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(tmp_path), "ANSIBLE_NOCOLOR": "1"},
    )
    assert (done.returncode != 0, LEFT_OUT in done.stdout) == (left_out, left_out), done.stdout + done.stderr


def test_every_play_that_asks_lxd_knows_the_distribution() -> None:
    """Where LXD is a snap, its client and its folder are elsewhere."""
    plays = [play for play in yaml.safe_load(PLAYBOOK.read_text()) if play["tags"] == ["lxd"]]
    assert len(plays) == 3
    assert all(play["gather_facts"] and "distribution" in play["gather_subset"] for play in plays)
