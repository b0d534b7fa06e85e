"""What the role `monitoring` calls its objects in Zabbix: controllers that share one take nothing from each other."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from local_play import plays_here

CHECKOUT = Path(__file__).resolve().parents[3]
ROLE = CHECKOUT / "roles/monitoring"
#: Modules whose objects belong to one controller, and which of their words name them.
OWN = {
    "community.zabbix.zabbix_action": ("name",),
    "community.zabbix.zabbix_script": ("name",),
    "community.zabbix.zabbix_token": ("name",),
    "vcrecovery.standby.zabbix_dashboard": ("name",),
    "community.zabbix.zabbix_host": ("host_name",),
}
USUAL = {
    "VCRecovery", "VCRecovery tells", "VCRecovery rebalance", "VCRecovery rebalances", "vcrecovery", "vcrecovery-next",
    "vcrecovery-controller", "vcrecovery-controller-next",
}  # fmt: skip


def tasks(found: Any) -> Iterator[dict[str, Any]]:
    for task in found or []:
        yield task
        for part in ("block", "rescue", "always"):
            yield from tasks(task.get(part))


def names() -> list[str]:
    """As the tasks have them; and the scripts and hosts that actions name."""
    found = []
    for file in sorted((ROLE / "tasks").glob("*.yml")):
        for task in tasks(yaml.safe_load(file.read_text())):
            for module, words in OWN.items():
                found += [task[module][word] for word in words if module in task]
            for operation in task.get("community.zabbix.zabbix_action", {}).get("operations", []):
                found += [operation["script_name"]] if "script_name" in operation else []
    agents = ["{{ monitoring_controller_name }}", "{{ monitoring_next_agent_name }}"]
    return [*(name for name in found if "monitoring_agent_at" not in name), *agents]


def rendered(folder: Path, zabbix: dict[str, str]) -> list[str]:
    """By the role's own variables."""
    standby = folder / "ansible_collections/vcrecovery/standby"
    standby.parent.mkdir(parents=True, exist_ok=True)
    if not standby.exists():
        standby.symlink_to(CHECKOUT)
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": {"vcrecovery_plan": {"zabbix": zabbix}, "names": names()},
        "tasks": [
            {"ansible.builtin.include_vars": {"file": str(ROLE / part / "main.yml")}} for part in ("defaults", "vars")
        ]
        + [{"ansible.builtin.debug": {"msg": "names: {{ names | to_json | b64encode }}"}}],
    }
    said = plays_here(folder, [play], ANSIBLE_PYTHON_INTERPRETER="/usr/bin/python3", ANSIBLE_NOCOLOR="1")
    found: list[str] = json.loads(base64.b64decode(said.partition("names: ")[2].partition('"')[0]))
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("names")


def test_no_object_of_one_controller_is_that_of_another(folder: Path) -> None:
    usual = set(rendered(folder, {}))
    second = set(rendered(folder, {"services_host": "services-b"}))
    # Nobody's objects get other names.
    assert usual == USUAL
    assert not usual & second
    assert len(second) == len(usual)
