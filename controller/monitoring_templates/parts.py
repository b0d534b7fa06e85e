"""What exports of Zabbix are made of. Keys and lists stand as Zabbix 6.0 exports them.

It compares what it imports with what it has; in another order it finds differences where there are none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from .identities import KNOWN

Part = dict[str, Any]
GROUP = "Templates/VCRecovery"
#: Tag to value.
Tags = Mapping[str, str]


def identity(*path: str) -> str:
    """The same for the same object for ever: by it Zabbix knows what an import changes, in place of making it anew."""
    name = "/".join(path)
    if name in KNOWN:
        return KNOWN[name]
    return UUID(bytes=hashlib.sha256(f"vcrecovery/{name}".encode()).digest()[:16], version=4).hex


def tags_of(tags: Tags) -> list[Part]:
    return [{"tag": tag, "value": value} for tag, value in sorted(tags.items())]


def without_nothing(part: Part) -> Part:
    """Without what is not said: Zabbix's own defaults hold."""
    return {key: value for key, value in part.items() if value not in (None, "", [], (), {})}


def item(
    template: str,
    key: str,
    name: str,
    about: str,
    tags: Tags,
    *,
    kind: str = "TRAP",
    delay: str = "0",
    history: str = "30d",
    trends: bool = False,
    value_type: str = "",
    units: str = "",
    params: str = "",
    words: str = "",
    of: str = "",
    path: str = "",
    often: bool = True,
    triggers: Sequence[Part] = (),
    prototype: bool = False,
) -> Part:
    """`words`: its value map. `of`: the item whose JSON it is taken from, at `path`.

    `often`: each value is kept, for problems that look at several; else the same one only every ten minutes.
    """
    numeric = value_type in ("", "FLOAT")
    return without_nothing(
        {
            "uuid": identity(template, key),
            "name": name,
            "type": "DEPENDENT" if of else kind,
            "key": key,
            "delay": delay,
            "history": history,
            "trends": None if trends and numeric else "0",
            "value_type": value_type,
            "units": units,
            "params": params,
            "description": about,
            "valuemap": {"name": words} if words else None,
            "preprocessing": _taken(path, often=often) if of else None,
            "master_item": {"key": of} if of else None,
            "tags": tags_of(tags),
            "trigger_prototypes" if prototype else "triggers": sorted(triggers, key=lambda one: one["name"]),
        }
    )


def calculated(
    template: str, key: str, name: str, about: str, component: str, params: str, *, value_type: str = "",
    words: str = "", triggers: Sequence[Part] = (),
) -> Part:  # fmt: skip
    """Made of other values, each second."""
    return item(
        template,
        key,
        name,
        about,
        {"component": component},
        kind="CALCULATED",
        delay="1s",
        history="1d",
        value_type=value_type,
        params=params,
        words=words,
        triggers=triggers,
    )


def rule(
    template: str,
    key: str,
    name: str,
    about: str,
    lifetime: str,
    *,
    items: Sequence[Part],
    graphs: Sequence[Part],
    triggers: Sequence[Part] = (),
    overrides: Sequence[Part] = (),
) -> Part:
    """Makes items of a list that is told. One that is not in it any more is removed after `lifetime`."""
    return without_nothing(
        {
            "uuid": identity(template, key),
            "name": name,
            "type": "TRAP",
            "key": key,
            "delay": "0",
            "lifetime": lifetime,
            "description": about,
            "item_prototypes": sorted(items, key=lambda one: str(one["key"])),
            "trigger_prototypes": sorted(triggers, key=lambda one: str(one["name"])),
            "graph_prototypes": graphs,
            "overrides": overrides,
        }
    )


def template(
    name: str,
    about: str,
    *,
    items: Sequence[Part],
    macros: Sequence[Part],
    words: Sequence[Part],
    rules: Sequence[Part] = (),
) -> Part:
    """`words`: its value maps."""
    return without_nothing(
        {
            "uuid": identity(name),
            "template": name,
            "name": name,
            "description": about,
            "groups": [{"name": GROUP}],
            "items": sorted(items, key=lambda one: str(one["key"])),
            "discovery_rules": rules,
            "tags": tags_of({"class": "software", "target": "vcrecovery"}),
            "macros": macros,
            "valuemaps": words,
        }
    )


def _taken(path: str, *, often: bool) -> list[Part]:
    steps: list[Part] = [{"type": "JSONPATH", "parameters": [path]}]
    return steps if often else [*steps, {"type": "DISCARD_UNCHANGED_HEARTBEAT", "parameters": ["10m"]}]


def trigger(
    template: str,
    kind: str,
    name: str,
    expression: str,
    priority: str,
    about: str,
    tags: Tags,
    *,
    event: str = "",
    recovery: str = "",
    shown: str = "",
    depends: Sequence[Part] = (),
) -> Part:
    """`kind` names it within its template, whatever it is called, and is its tag vcr-kind.

    `shown`: its operational data. `depends`: not raised while one of these is. None may be closed by hand: values come
    again and again, so that it would be back at once.
    """
    return without_nothing(
        {
            "uuid": identity(template, "trigger", kind),
            "expression": expression,
            "recovery_mode": "RECOVERY_EXPRESSION" if recovery else None,
            "recovery_expression": recovery,
            "name": name,
            "event_name": event,
            "opdata": shown,
            "priority": priority,
            "description": about,
            "dependencies": sorted((as_dependency(one) for one in depends), key=lambda one: one["name"]),
            "tags": tags_of({**tags, "vcr-kind": kind}),
        }
    )


def as_dependency(of: Part) -> Part:
    return {key: of[key] for key in ("name", "expression", "recovery_expression") if key in of}


def graph(template: str, name: str, lines: Sequence[tuple[str, str]], *, percent: bool = False) -> Part:
    """`lines`: item keys and their colours."""
    return without_nothing(
        {
            "uuid": identity(template, "graph", name),
            "name": name,
            "ymin_type_1": "FIXED",
            "ymax_type_1": "FIXED" if percent else None,
            "graph_items": [
                without_nothing(
                    {
                        "sortorder": str(number) if number else None,
                        "color": colour,
                        "item": {"host": template, "key": key},
                    }
                )
                for number, (key, colour) in enumerate(lines)
            ],
        }
    )


def macro(name: str, value: str, about: str) -> Part:
    return {"macro": name, "value": value, "description": about}


def value_map(template: str, name: str, words: Mapping[int, str]) -> Part:
    return {
        "uuid": identity(template, "valuemap", name),
        "name": name,
        "mappings": [{"value": str(number), "newvalue": word} for number, word in words.items()],
    }
