"""A plan of a released version is read by this one: whatever its schema allows, today's allows too."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from vcrecovery.plan.load import load_plan
from vcrecovery.plan.model import Plan

RELEASED = sorted((Path(__file__).parent / "released").glob("plan-schema-*.json"))
Rule = Mapping[str, Any]
#: Of each bound, whether the new one is as wide.
BOUNDS: Mapping[str, Callable[[Any, Any], bool]] = {
    "minimum": lambda old, new: new <= old,
    "exclusiveMinimum": lambda old, new: new <= old,
    "minLength": lambda old, new: new <= old,
    "minItems": lambda old, new: new <= old,
    "maximum": lambda old, new: new >= old,
    "maxLength": lambda old, new: new >= old,
    "maxItems": lambda old, new: new >= old,
    "pattern": lambda old, new: new == old,
}


class Comparison:
    """What a schema allows that a newer one does not. Sections may have other names, and contain each other."""

    def __init__(self, old: Rule, new: Rule) -> None:
        self.old, self.new = old, new
        self.under_way: set[tuple[str, str]] = set()

    def refused(self, old: Rule, new: Rule, place: str) -> Iterator[str]:
        """Places, with what is wrong there."""
        if "$ref" in old and "$ref" in new:
            names = (old["$ref"], new["$ref"])
            if names in self.under_way:
                return
            self.under_way.add(names)
        old, new = _resolved(old, self.old), _resolved(new, self.new)
        kinds = _kinds(new)
        for kind in _kinds(old):
            answers = [list(self._refused_of_one(_resolved(kind, self.old), other, place)) for other in kinds]
            if all(answers):
                yield from min(answers, key=len)

    def _refused_of_one(self, old: Rule, new: Rule, place: str) -> Iterator[str]:
        new = _resolved(new, self.new)
        if len(_kinds(new)) > 1 or len(_kinds(old)) > 1:
            yield from self.refused(old, new, place)
            return
        if old.get("type") != new.get("type") and (old.get("type"), new.get("type")) != ("integer", "number"):
            yield f"{place}: {old.get('type')} is {new.get('type')} now"
            return
        for values in ("enum", "const"):
            allowed = new.get("enum", [new["const"]] if "const" in new else None)
            if values in old and allowed is not None:
                gone = [value for value in (old[values] if values == "enum" else [old[values]]) if value not in allowed]
                yield from (f"{place}: {value!r} is gone" for value in gone)
        if ("enum" in new or "const" in new) and not ("enum" in old or "const" in old):
            yield f"{place}: only some values are left"
        for bound, as_wide in BOUNDS.items():
            if bound in new and not (bound in old and as_wide(old[bound], new[bound])):
                yield f"{place}: {bound} {old.get(bound)} is {new[bound]} now"
        known = new.get("properties", {})
        for name, rule in old.get("properties", {}).items():
            if name in known:
                yield from self.refused(rule, known[name], f"{place}.{name}")
            else:
                yield f"{place}.{name}: is gone"
        yield from (
            f"{place}.{name}: is required now" for name in set(new.get("required", [])) - set(old.get("required", []))
        )
        for inner in ("items", "additionalProperties"):
            if isinstance(old.get(inner), dict) and isinstance(new.get(inner), dict):
                yield from self.refused(old[inner], new[inner], f"{place}[]")
        for (_, one), (_, other) in zip(
            old.get("patternProperties", {}).items(), new.get("patternProperties", {}).items(), strict=True
        ):
            yield from self.refused(one, other, f"{place}.NAME")


def _resolved(rule: Rule, schema: Rule) -> Rule:
    while "$ref" in rule:
        rule = schema["$defs"][rule["$ref"].rpartition("/")[2]]
    return rule


def _kinds(rule: Rule) -> list[Rule]:
    for many in ("anyOf", "oneOf"):
        if many in rule:
            return list(rule[many])
    return [rule]


def refused(old: Rule, new: Rule) -> list[str]:
    return list(Comparison(old, new).refused(old, new, "plan"))


@pytest.mark.parametrize("file", RELEASED, ids=lambda path: path.stem.removeprefix("plan-schema-"))
def test_what_a_released_version_allowed_is_allowed(file: Path) -> None:
    assert refused(json.loads(file.read_text()), Plan.model_json_schema()) == []


def test_the_comparison_finds_what_is_gone() -> None:
    new = Plan.model_json_schema()
    old = json.loads(json.dumps(new))
    service = old["$defs"]["Service"]
    service["properties"]["colour"] = {"type": "string"}
    service["required"] = [name for name in service["required"] if name != "standby"]
    old["$defs"]["Detection"]["properties"]["embedded"] = {"type": "integer"}
    assert sorted(refused(old, new)) == [
        "plan.detection.embedded: integer is boolean now",
        "plan.services.NAME.colour: is gone",
        "plan.services.NAME.standby: is required now",
    ]


def test_the_plan_that_the_first_version_documented_is_read(tmp_path: Path) -> None:
    file = tmp_path / "plan.yml"
    file.write_text(FIRST)
    assert set(load_plan(file).services) == {"web"}


FIRST = """\
version: 1
hypervisors:
  hv1: {uri: "qemu+ssh://vcrecovery@hv1.example.net/system"}
secondaries:
  sec1:
    storage_pool: standbys                            # an LXD pool with driver dir or btrfs; made (dir) if missing
    network: {bridge: vcr0, address: 10.20.0.1/24}    # the standbys' network; made if missing
    receiver: {address: 192.0.2.5, port: 7022}        # where the primaries send their files
dns:
  servers: {ns1: {address: 192.0.2.53}}
  keys: {failover: {name: failover.key, secret_file: /etc/vcrecovery/tsig/failover.key}}
  zones: {example.net: {servers: [ns1], key: failover}}
services:
  web:
    primary: {hypervisor: hv1, uuid: 6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0001, address: 192.0.2.10}
    standby: {secondary: sec1, address: 10.20.0.10}
    ports: [80, 443]                                  # all must answer before DNS moves
    first_units: [nginx.service]                      # what answers them: a boot starts it before everything else
    dns: [{name: www.example.net, zone: example.net, ttl: 30}]
    max_staleness: 2m
"""
