"""What the templates for Zabbix promise, without Zabbix: identity, order, and the tags that the controller reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml

from vcrecovery.core.health import Health
from vcrecovery.detect.zabbix_health import LIST, NUMBERS, SECONDARIES, SIGN, SIGN_EVERY
from vcrecovery.drivers.zabbix import METHODS
from vcrecovery.plan.monitoring import COPY_POLL

CHECKOUT = Path(__file__).resolve().parents[3]
FILE = CHECKOUT / "templates/zabbix/vcrecovery.yaml"
EXPORT = yaml.safe_load(FILE.read_text())["zabbix_export"]
TEMPLATES = {template["name"]: template for template in EXPORT["templates"]}


def every(kind: str, tree: Any = EXPORT) -> Iterator[list[Any]]:
    """Each list that stands under this key, anywhere."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key == kind:
                yield value
            yield from every(kind, value)
    elif isinstance(tree, list):
        for value in tree:
            yield from every(kind, value)


def triggers() -> list[dict[str, Any]]:
    return [one for kind in ("triggers", "trigger_prototypes") for group in every(kind) for one in group]


def test_every_object_has_an_identity_of_its_own() -> None:
    found = re.findall(r"uuid: (\S+)", FILE.read_text())
    assert len(found) == len(set(found)) > 15
    assert all(UUID(one).version == 4 for one in found)


@pytest.mark.parametrize(
    ("kind", "by"),
    [
        ("macros", "macro"),
        ("tags", "tag"),
        ("items", "key"),
        ("item_prototypes", "key"),
        ("trigger_prototypes", "name"),
    ],
)
def test_lists_stand_as_zabbix_exports_them(kind: str, by: str) -> None:
    for group in every(kind):
        names = [one[by] for one in group]
        assert names == sorted(names, key=lambda name: name.rstrip("}")), kind


def test_problems_carry_what_the_controller_reads() -> None:
    tags = [sorted((tag["tag"], tag["value"]) for tag in trigger["tags"]) for trigger in triggers()]
    found = sorted(one for one in tags if ("vcr", "recover") in one)
    vm = ("vcr-uuid", "{#UUID}")
    assert found == [
        [("vcr", "recover"), ("vcr-host", "{HOST.HOST}"), ("vcr-kind", "host")],
        [("vcr", "recover"), ("vcr-kind", "cpu-high"), vm],
        [("vcr", "recover"), ("vcr-kind", "cpu-zero"), vm],
        [("vcr", "recover"), ("vcr-kind", "site"), ("vcr-site", "{$VCR.SITE}")],
        [("vcr", "recover"), ("vcr-kind", "vm"), vm],
    ]


def test_what_a_vm_depends_on_is_the_trigger_of_its_hypervisor() -> None:
    (silent,) = [one for one in triggers() if one["name"] == "Hypervisor is silent"]
    wanted = {key: silent[key] for key in ("name", "expression", "recovery_expression")}
    prototypes = [one for group in every("trigger_prototypes", TEMPLATES["VCRecovery hypervisor"]) for one in group]
    assert len(prototypes) == 3
    assert all(one["dependencies"] == [wanted] for one in prototypes)


def test_every_threshold_is_a_macro_that_the_role_sets_from_the_plan() -> None:
    known = {macro["macro"] for macro in TEMPLATES["VCRecovery hypervisor"]["macros"]}
    # What the plan does not say.
    own = {macro["macro"] for macro in TEMPLATES["VCRecovery services"]["macros"]}
    assert set(re.findall(r"\{\$[A-Z.]+\}", FILE.read_text())) == known | own
    variables = (CHECKOUT / "roles/monitoring/vars/main.yml").read_text()
    assert set(re.findall(r"\{\$[A-Z.]+\}", variables)) == known
    for trigger in triggers():
        for window in re.findall(r",(\d+[smh])", trigger["expression"]):
            pytest.fail(f"{trigger['name']}: the time {window} is no macro")


def test_zabbix_starts_no_failover_for_the_health_of_a_service() -> None:
    found = [
        sorted((tag["tag"], tag["value"]) for tag in trigger["tags"])
        for kind in ("triggers", "trigger_prototypes")
        for group in every(kind, TEMPLATES["VCRecovery services"])
        for trigger in group
    ]
    service = ("vcr-service", "{#SERVICE}")
    assert sorted(found) == [
        [("vcr-kind", "overload"), ("vcr-secondary", "{#SECONDARY}")],
        [("vcr-kind", "service-down"), service],
        [("vcr-kind", "service-unknown"), service],
        [("vcr-kind", "watch")],
    ]


def test_the_services_values_have_their_items_and_words() -> None:
    template = TEMPLATES["VCRecovery services"]
    secondaries, rule = template["discovery_rules"]
    assert [item["key"] for item in template["items"]] == [SIGN]
    assert rule["key"] == LIST
    assert [item["key"] for item in rule["item_prototypes"]] == [
        f"vcr.{what}[{{#SERVICE}}]" for what in ("health", "seconds", "why")
    ]
    assert secondaries["key"] == SECONDARIES
    assert [item["key"] for item in secondaries["item_prototypes"]] == [
        f"vcr.{what}[{{#SECONDARY}}]" for what in ("cpu", "memory", "overloaded", "relief")
    ]
    ((words, _),) = every("valuemaps", template)
    named = {int(entry["value"]): Health(entry["newvalue"]) for entry in words["mappings"]}
    assert named == {number: health for health, number in NUMBERS.items()}


def test_no_controller_that_gives_signs_of_life_is_taken_for_silent() -> None:
    (silent,) = [m for m in TEMPLATES["VCRecovery services"]["macros"] if m["macro"] == "{$VCR.WATCH.SILENT}"]
    assert int(silent["value"].removesuffix("m")) * 60 >= 3 * SIGN_EVERY


def test_zabbix_knows_the_pace_of_libvirt_snmp() -> None:
    variables = yaml.safe_load((CHECKOUT / "roles/monitoring/vars/main.yml").read_text())
    assert variables["monitoring_copy_poll"] == COPY_POLL


def test_the_token_may_do_what_the_controller_asks() -> None:
    defaults = yaml.safe_load((CHECKOUT / "roles/monitoring/defaults/main.yml").read_text())
    assert defaults["monitoring_api_methods"] == sorted(METHODS)
