"""The roles' defaults of the plan are the program's: they read the same schema."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from conftest import PLAN
from vcrecovery.detect.watch import BOOT_GRACE
from vcrecovery.plan.fields import parse_duration
from vcrecovery.plan.model import Plan

CHECKOUT = Path(__file__).resolve().parents[3]
SHARED = CHECKOUT / "plugins/plugin_utils"
#: What none of the test plans has otherwise.
MORE = """
snmp: {users: {u1: {auth_file: /a, privacy_file: /p}}, traps: {community_file: /c}}
zabbix: {api: {url: "https://zabbix.example.net", token_file: /t}}
metrics: {port: 9999}
groups: {front: {services: [web]}}
notify: [{url_file: /etc/vcrecovery/notify/ops}]
hooks: {on_refused: [{command: [page]}]}
"""
SERVICE = """
mode: cold
ports: [80, {tls: {port: 443, name: www.example.test}}, {http: {port: 8080}}]
virtual_ip: {address: 192.0.2.50/24, interface: eth0}
sync: {engine: periodic, reconcile: 1m, exclude_profile: null, consistency: {kind: hook, hook: {before: sync}}}
restore_points: {keep: 3}
hooks: {before_start: [{command: [ask], gate: true}], after_switch: [{command: [tell], timeout: 1m}]}
dns:
  - {name: a.example.test, zone: example.test}
  - {name: aaaa.example.test, zone: example.test, type: AAAA, primary: "fd00::1", standby: "fd00::2"}
  - {name: cname.example.test, zone: example.test, type: CNAME, primary: p.test, standby: s.test, ttl: 5}
  - name: _sip._tcp.example.test
    zone: example.test
    type: SRV
    primary: {target: p.test, port: 1, weight: 2}
    standby: {target: s.test, port: 1}
"""


def with_defaults() -> Callable[[Any, str], Any]:
    """Ansible finds it by the collection's name."""
    spec = importlib.util.spec_from_file_location("plan_schema", SHARED / "plan_schema.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[[Any, str], Any] = module.with_defaults
    return found


def small(tmp_path: Path) -> Any:
    return yaml.safe_load(PLAN.format(folder=tmp_path))


def rich(tmp_path: Path) -> Any:
    plan = {**small(tmp_path), **yaml.safe_load(MORE)}
    plan["services"]["web"] |= yaml.safe_load(SERVICE)
    plan["hypervisors"]["hv1"]["snmp"] = {"address": "10.9.9.9", "user": "u1"}
    plan["hypervisors"]["hv1"]["fence"] = {"command": ["off"]}
    return plan


def the_inventorys(_tmp_path: Path) -> Any:
    text = re.sub(
        r"{{ vcrecovery_\w+_dir }}", "/srv", (CHECKOUT / "controller/lab/inventory/group_vars/all.yml").read_text()
    )
    return yaml.safe_load(text)["vcrecovery_plan"]


def same(ours: Any, programs: Any, place: str) -> None:
    """Every key that the program knows is there, with its value. The plan may write one in another way."""
    if isinstance(ours, dict):
        assert set(ours) == set(programs), place
        for key, value in ours.items():
            same(value, programs[key], f"{place}.{key}")
    elif isinstance(ours, list):
        assert len(ours) == len(programs), place
        for number, (value, other) in enumerate(zip(ours, programs, strict=True)):
            same(value, other, f"{place}[{number}]")
    elif isinstance(programs, dict):
        assert programs["tcp"] == ours, place  # a port by its number
    elif isinstance(programs, float):
        assert parse_duration(ours) == programs, place
    else:
        assert ours == programs, place


@pytest.mark.parametrize("plan", [small, rich, the_inventorys])
def test_what_a_plan_leaves_out_is_as_the_program_reads_it(plan: Callable[[Path], Any], tmp_path: Path) -> None:
    text = plan(tmp_path)
    same(with_defaults()(text, "Plan"), json.loads(Plan.model_validate(text).model_dump_json()), "plan")


def test_a_section_that_the_plan_does_not_have_is_named() -> None:
    with pytest.raises(Exception, match=r"the plan has no section 'Synk'; it has Plan, .*Sync"):
        with_defaults()({}, "Synk")


def test_the_shipped_schema_is_the_programs() -> None:
    """If not: `vcrecovery plan schema > plugins/plugin_utils/plan_schema.json`."""
    assert json.loads((SHARED / "plan_schema.json").read_text()) == Plan.model_json_schema()


def test_no_role_has_a_default_of_the_plan_of_its_own() -> None:
    schema = Plan.model_json_schema()
    sections = [schema, *schema["$defs"].values()]
    keys = {key for section in sections for key, entry in section.get("properties", {}).items() if entry.get("default")}
    assert {"state_dir", "heartbeat", "ttl", "algorithm"} <= keys
    files = [*CHECKOUT.glob("roles/*/*/*.*"), *CHECKOUT.glob("templates/*.j2"), *CHECKOUT.glob("plugins/*/*.py")]
    for file in files:
        text = file.read_text()
        typed = re.findall(r"(\w+)\.(\w+) *\| *default\((['\"\d][^)]*)\)", text)
        typed += re.findall(r"(\w+)\.get\([\"'](\w+)[\"'], ([\"'\d][^)]*)\)", text)
        # A destination of notifications is the role's own variable.
        own = [one for one in typed if one[1] in keys and one[0] != "destination" and one[2] not in ("''", '""')]
        assert own == [], file


def test_zabbix_gives_a_boot_as_long_as_the_watcher() -> None:
    text = (CHECKOUT / "roles/monitoring/vars/main.yml").read_text()
    assert re.findall(r'"{\$VCR.BOOT.GRACE}": (\d+)s', text) == [f"{BOOT_GRACE:.0f}"]
