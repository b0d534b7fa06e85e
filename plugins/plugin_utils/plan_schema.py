# SPDX-License-Identifier: Apache-2.0
"""The plan's defaults, as its schema has them.

plan_schema.json is what `vcrecovery plan schema` prints; a test of the program holds it to that.
"""

from __future__ import annotations

import functools
import json
import os

from ansible.errors import AnsibleFilterError


@functools.lru_cache
def schema():
    path = os.path.join(os.path.dirname(os.path.realpath(__file__)), "plan_schema.json")
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def section_rule(section):
    """The rule of `Plan`, of a section such as `Sync`, or of a key of one such as `Service.dns`."""
    name, _dot, key = section.partition(".")
    rule = schema() if name == "Plan" else schema()["$defs"].get(name)
    if key and rule is not None:
        rule = rule.get("properties", {}).get(key)
    if rule is None:
        known = ", ".join(["Plan", *sorted(schema()["$defs"])])
        raise AnsibleFilterError(f"the plan has no section {section!r}; it has {known}")
    return rule


def meant(value, rule):
    """The rule that holds for this value: references followed, and of several kinds of sections the one that fits."""
    while "$ref" in rule:
        rule = schema()["$defs"][rule["$ref"].rpartition("/")[2]]
    for kind in rule.get("anyOf", rule.get("oneOf", [])):
        found = meant(value, kind)
        if fits(value, found):
            return found
    return rule


def fits(value, rule):
    if isinstance(value, list):
        return rule.get("type") == "array"
    if not isinstance(value, dict) or rule.get("type") != "object":
        return False
    known = rule.get("properties")
    if known is None:
        return True
    same = all(value[key] == known[key]["const"] for key in value if "const" in known.get(key, {}))
    return same and set(rule.get("required", [])) <= set(value) <= set(known)


def entries(rule):
    """What holds for each entry of a mapping whose keys are names."""
    named = [*rule.get("patternProperties", {}).values(), rule.get("additionalProperties")]
    return named[0] if isinstance(named[0], dict) else {}


def completed(value, rule):
    rule = meant(value, rule)
    if isinstance(value, list):
        return [completed(item, rule.get("items", {})) for item in value]
    if not isinstance(value, dict):
        return value
    known = rule.get("properties", {})
    found = {key: completed(item, known.get(key, entries(rule))) for key, item in value.items()}
    for key, entry in known.items():
        if key not in found and "default" in entry:
            found[key] = completed(entry["default"], entry)
    return found


def with_defaults(value, section):
    """`value` with what it leaves out, at every depth."""
    return completed(value, section_rule(section))
