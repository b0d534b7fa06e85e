"""What the templates for Zabbix promise, without it: identity, order, conventions, what the controller reads."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml

from monitoring_templates.__main__ import files
from monitoring_templates.alerts import ALERTS
from vcrecovery.core.health import Health
from vcrecovery.detect.zabbix_health import LIST, NUMBERS, SECONDARIES, SIGN, SIGN_EVERY
from vcrecovery.drivers.zabbix import METHODS
from vcrecovery.plan.monitoring import COPY_POLL
from vcrecovery.report import powers, zabbix_values
from vcrecovery.report.protection import Protection
from vcrecovery.report.zabbix_status import CONTROLLER

CHECKOUT = Path(__file__).resolve().parents[3]
VERSIONS = ("6.0", "7.0")
TEXTS = {version: (CHECKOUT / f"templates/zabbix/vcrecovery-{version}.yaml").read_text() for version in VERSIONS}
EXPORTS = {version: yaml.safe_load(text)["zabbix_export"] for version, text in TEXTS.items()}
EXPORT = EXPORTS["6.0"]
TEMPLATES = {template["name"]: template for template in EXPORT["templates"]}
OURS, HOSTS, SITES = "VCRecovery controller", "VCRecovery hypervisor", "VCRecovery site"


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


def all_of(*kinds: str, tree: Any = EXPORT) -> list[dict[str, Any]]:
    return [one for kind in kinds for group in every(kind, tree) for one in group]


def triggers(tree: Any = EXPORT) -> list[dict[str, Any]]:
    return all_of("triggers", "trigger_prototypes", tree=tree)


def items(tree: Any = EXPORT) -> list[dict[str, Any]]:
    return all_of("items", "item_prototypes", tree=tree)


def tags(one: dict[str, Any]) -> dict[str, str]:
    return {tag["tag"]: tag["value"] for tag in one.get("tags", [])}


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_they_are_written_by_their_program(path: Path) -> None:
    if os.environ.get("VCRECOVERY_REWRITE"):
        path.write_text(files()[path])
    assert path.read_text() == files()[path], "`make templates` writes it"


@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_has_an_identity_of_its_own(version: str) -> None:
    found = [one["uuid"] for one in every_object(EXPORTS[version])]
    assert len(found) == len(set(found)) > 60
    assert all(UUID(one).version == 4 for one in found)


def every_object(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        if "uuid" in tree:
            yield tree
        for value in tree.values():
            yield from every_object(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from every_object(value)


def test_both_versions_have_the_same_objects() -> None:
    old, new = ({one["uuid"] for one in every_object(EXPORTS[version])} for version in VERSIONS)
    assert old == new


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


def test_the_order_is_the_same_in_every_locale() -> None:
    """Zabbix 7.0 sorts by its own, in which punctuation may count for nothing."""
    for group in [*every("items"), *every("item_prototypes")]:
        names = [one["key"].partition("[")[0] for one in group if "[" in one["key"]]
        assert not [(a, b) for a in names for b in names if a != b and b.startswith(a)]
    for group in every("trigger_prototypes"):
        rests = [re.sub(r"^\w+ \{#\w+\}", "", one["name"]) for one in group]
        assert len({rest.startswith(": VM {#VM} ") for rest in rests}) == 1
        assert all(rest.removeprefix(": VM {#VM}")[0] == " " for rest in rests)


def test_conventions_of_zabbixs_own_templates() -> None:
    """Counted, as the official ones are: none is without."""
    assert all("component" in tags(one) for one in items())
    assert all(one["description"] for one in items())
    assert all(tags(one).get("scope") in ("availability", "performance", "notice") for one in triggers())
    assert all(one["opdata"] and one["description"] for one in triggers())
    assert all(tags(template) == {"class": "software", "target": "vcrecovery"} for template in EXPORT["templates"])
    assert all(template["vendor"]["name"] == "VCRecovery" for template in EXPORTS["7.0"]["templates"])


def test_a_problem_says_of_which_service_it_is() -> None:
    for one in all_of("trigger_prototypes"):
        named = tags(one)
        if "vcr-secondary" not in named:
            assert named["service"] == "{#SERVICE}", one["name"]
            assert one["name"].startswith("Service {#SERVICE}"), one["name"]


def test_a_description_is_sentences_without_line_ends_in_them() -> None:
    for one in [*triggers(), *items()]:
        assert all(line.endswith((".", "?", "`")) for line in one["description"].splitlines()), one["description"]


def test_whoever_reads_a_problem_is_told_what_to_type() -> None:
    """Of each but those of which the way out is in its name."""
    for one in triggers():
        kind = tags(one)["vcr-kind"]
        assert "`" in one["description"] or kind == "old-primary", one["name"]


def test_problems_carry_what_the_controller_reads() -> None:
    found = sorted(
        tuple(sorted((tag, value) for tag, value in tags(one).items() if tag.startswith("vcr")))
        for one in triggers()
        if tags(one).get("vcr") == "recover"
    )
    vm = ("vcr-uuid", "{#UUID}")
    assert found == [
        (("vcr", "recover"), ("vcr-host", "{HOST.HOST}"), ("vcr-kind", "host")),
        (("vcr", "recover"), ("vcr-kind", "cpu-high"), vm),
        (("vcr", "recover"), ("vcr-kind", "cpu-zero"), vm),
        (("vcr", "recover"), ("vcr-kind", "site"), ("vcr-site", "{$VCR.SITE}")),
        (("vcr", "recover"), ("vcr-kind", "vm"), vm),
    ]


def test_what_a_vm_depends_on_is_the_trigger_of_its_hypervisor() -> None:
    (silent,) = [one for one in triggers() if one["name"] == "Hypervisor is silent"]
    wanted = {key: silent[key] for key in ("name", "expression", "recovery_expression")}
    prototypes = all_of("trigger_prototypes", tree=TEMPLATES[HOSTS])
    assert len(prototypes) == 4
    assert all(one["dependencies"] == [wanted] for one in prototypes)


def test_every_threshold_is_a_macro_and_the_role_sets_those_of_the_plan() -> None:
    known = {macro["macro"] for macro in all_of("macros")}
    assert "<vcr" not in TEXTS["6.0"]
    assert set(re.findall(r"\{\$[A-Z.]+\}", TEXTS["6.0"])) == known
    variables = (CHECKOUT / "roles/monitoring/vars/main.yml").read_text()
    assert set(re.findall(r"\{\$[A-Z.]+\}", variables)) <= known
    for trigger in triggers():
        for window in re.findall(r",(\d+[smhd])", trigger["expression"]):
            pytest.fail(f"{trigger['name']}: the time {window} is no macro")


def test_what_is_gone_keeps_its_problems_in_7_0_as_in_6_0() -> None:
    """Else the problem of a transient VM that crashed would vanish a minute later."""
    rules = all_of("discovery_rules", tree=EXPORTS["7.0"])
    assert len(rules) == 3
    assert all(rule["enabled_lifetime_type"] == "DISABLE_NEVER" for rule in rules)


def test_zabbix_starts_no_failover_for_what_the_controller_knows_itself() -> None:
    assert not any("vcr" in tags(one) for one in triggers(TEMPLATES[OURS]))


def test_the_same_problems_call_somebody_in_zabbix_and_in_prometheus() -> None:
    rules = yaml.safe_load((CHECKOUT / "templates/prometheus/alerts.yml").read_text())["groups"][0]["rules"]
    assert [rule["alert"] for rule in rules] == [alert.name for alert in ALERTS if alert.expr]
    there = {tags(one)["vcr-kind"] for one in triggers() if OURS in one["expression"]}
    assert there == {alert.kind for alert in ALERTS if alert.zabbix}
    # Each is in both, or says itself by another one: an age that is too high or unknown is what makes one unprotected.
    only = {alert.kind for alert in ALERTS if not (alert.expr and alert.zabbix)}
    assert only == {"too-old", "age-not-known", "service-unknown", "at-work", "controller", "status", "unreachable"}


def test_the_values_have_their_items_and_words() -> None:
    template = TEMPLATES[OURS]
    secondaries, rule = template["discovery_rules"]
    assert {SIGN, CONTROLLER} <= {item["key"] for item in template["items"]}
    assert rule["key"] == LIST
    sent = {one["key"] for one in rule["item_prototypes"] if one["type"] == "TRAP"}
    assert sent == {f"vcr.{what}[{{#SERVICE}}]" for what in ("health", "seconds", "serves", "status", "why")}
    assert secondaries["key"] == SECONDARIES
    assert [item["key"] for item in secondaries["item_prototypes"]] == [
        f"vcr.{what}[{{#SECONDARY}}]"
        for what in (
            *("cpu", "diskbusy", "disklatency", "dropped", "memory", "network", "onfor"),
            *("overloaded", "power", "pressure.cpu", "pressure.io", "pressure.memory"),
            *("received", "relief", "sent", "steal", "uses"),
        )
    ]
    assert set(words("Power")) == {powers.OFF, powers.ON, powers.BEING_MADE, powers.BEING_GIVEN_BACK}
    assert words("Health") == {number: health.value for health, number in NUMBERS.items()}
    assert words("Protection") == {number: level.value for level, number in zabbix_values.PROTECTIONS.items()}
    assert set(words("Protection").values()) == {level.value for level in Protection}
    assert set(words("Serves")) == {
        zabbix_values.SERVES_VM,
        zabbix_values.SERVES_STANDBY,
        zabbix_values.AT_WORK,
    }
    assert words("Age") == {
        int(zabbix_values.SERVES_ITSELF): "its standby serves",
        int(zabbix_values.AGE_NOT_KNOWN): "not known",
    }
    assert set(Health) == set(NUMBERS)


def words(name: str) -> dict[int, str]:
    (found,) = [one for one in TEMPLATES[OURS]["valuemaps"] if one["name"] == name]
    return {int(entry["value"]): entry["newvalue"] for entry in found["mappings"]}


def test_no_controller_that_gives_signs_of_life_is_taken_for_silent() -> None:
    (silent,) = [m for m in TEMPLATES[OURS]["macros"] if m["macro"] == "{$VCR.WATCH.SILENT}"]
    assert int(silent["value"].removesuffix("m")) * 60 >= 3 * SIGN_EVERY


def test_widgets_of_a_page_stand_beside_each_other() -> None:
    for version, columns in (("6.0", 24), ("7.0", 72)):
        for page in all_of("pages", tree=EXPORTS[version]):
            taken: set[tuple[int, int]] = set()
            for one in page["widgets"]:
                x, y = int(one.get("x", 0)), int(one.get("y", 0))
                place = {(x + dx, y + dy) for dx in range(int(one["width"])) for dy in range(int(one["height"]))}
                assert not place & taken, one
                assert max(column for column, _ in place) < columns
                taken |= place


def test_zabbix_knows_the_pace_of_libvirt_snmp() -> None:
    variables = yaml.safe_load((CHECKOUT / "roles/monitoring/vars/main.yml").read_text())
    assert variables["monitoring_copy_poll"] == COPY_POLL


def test_the_token_may_do_what_the_controller_asks() -> None:
    defaults = yaml.safe_load((CHECKOUT / "roles/monitoring/defaults/main.yml").read_text())
    assert defaults["monitoring_api_methods"] == sorted(METHODS)
