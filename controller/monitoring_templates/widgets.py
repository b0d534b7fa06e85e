"""Dashboards of templates, said once: what each version of Zabbix can show of it.

Zabbix 7.0 has a grid of 72 columns, problems and honeycombs; 6.0 has 24 columns, and of these the plain widgets only.
There the text that answers the same stands in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .parts import Part, without_nothing

Field = tuple[str, str, Any]
_COLOURS = ("2774A4", "F63100", "1A7C11", "97AAB3")


@dataclass(frozen=True)
class Widget:
    """`x`, `y`, `width`, `height`: in the grid of 7.0. `old`: its name in 6.0; empty where that has none."""

    new: str
    old: str
    x: int
    y: int
    width: int
    height: int
    name: str = ""
    fields: Sequence[Field] = ()
    old_fields: Sequence[Field] = ()


@dataclass(frozen=True)
class Page:
    name: str
    widgets: Sequence[Widget]


def problems(x: int, y: int, width: int, height: int) -> Widget:
    fields = [("INTEGER", "show_lines", "25"), ("INTEGER", "show_opdata", "1"), ("INTEGER", "sort_triggers", "1")]
    return Widget("problems", "", x, y, width, height, "What is wrong", fields)


def tiles(
    x: int, y: int, width: int, height: int, pattern: str, label: str, colours: Mapping[int, str] | None = None,
    name: str = "",
) -> Widget:  # fmt: skip
    """A honeycomb of the items whose names fit; each says its value in words."""
    fields: list[Field] = [
        ("STRING", "items.0", pattern),
        ("STRING", "primary_label", label),
        ("STRING", "secondary_label", "{ITEM.LASTVALUE}"),
        ("INTEGER", "secondary_label_type", "0"),
    ]
    for number, (threshold, colour) in enumerate((colours or {}).items()):
        fields += [
            ("STRING", f"thresholds.{number}.color", colour),
            ("STRING", f"thresholds.{number}.threshold", str(threshold)),
        ]
    return Widget("honeycomb", "", x, y, width, height, name or pattern.removesuffix(" *"), fields)


def history(x: int, y: int, width: int, height: int, template: str, key: str, name: str) -> Widget:
    """The newest text of an item."""
    item = {"host": template, "key": key}
    fields: list[Field] = [
        ("INTEGER", "columns.0.monospace_font", "1"),
        ("ITEM", "columns.0.itemid", item),
        ("STRING", "columns.0.name", name),
        ("INTEGER", "show_lines", "1"),
        ("INTEGER", "show_timestamp", "1"),
    ]
    old: list[Field] = [("ITEM", "itemids", item), ("INTEGER", "show_lines", "1")]
    return Widget("itemhistory", "PLAIN_TEXT", x, y, width, height, name, fields, old)


def one_value(x: int, y: int, width: int, height: int, template: str, key: str) -> Widget:
    old: list[Field] = [("ITEM", "itemid", {"host": template, "key": key})]
    fields: list[Field] = [("ITEM", "itemid.0", {"host": template, "key": key})]
    return Widget("item", "ITEM", x, y, width, height, "", fields, old)


def figure(
    x: int,
    y: int,
    width: int,
    height: int,
    template: str,
    graph: str,
    patterns: Sequence[str],
    *,
    percent: bool = False,
) -> Widget:
    """One figure of all items whose names fit, so that no place is empty; in 6.0 one `graph` after the other."""
    fields: list[Field] = []
    for number, pattern in enumerate(patterns):
        fields += [("STRING", f"ds.{number}.items.0", pattern), ("STRING", f"ds.{number}.color", _COLOURS[number])]
    if percent:
        fields += [("STRING", "lefty_min", "0"), ("STRING", "lefty_max", "100")]
    old: list[Field] = [
        ("INTEGER", "columns", "1"),
        ("INTEGER", "rows", "1"),
        ("GRAPH_PROTOTYPE", "graphid", {"host": template, "name": graph}),
    ]
    name = " and ".join(pattern.removesuffix(" *").removesuffix(" of") for pattern in patterns)
    return Widget("svggraph", "GRAPH_PROTOTYPE", x, y, width, height, name, fields, old)


def pages(of: Sequence[Page], version: str) -> list[Part]:
    return [{"name": page.name, "widgets": sorted(_widgets(page, version), key=_order(version))} for page in of]


def _order(version: str) -> Callable[[Part], tuple[Any, ...]]:
    """As Zabbix exports them: by their places, in 6.0 by kind and name before that."""

    def key(widget: Part) -> tuple[Any, ...]:
        kind = widget["type"] if version == "6.0" else ""
        name = widget.get("name", "") if version == "6.0" else ""
        return kind, name, int(widget.get("x", 0)), int(widget.get("y", 0))

    return key


def _widgets(page: Page, version: str) -> Iterator[Part]:
    if version == "6.0":
        yield from _old(page)
        return
    for number, one in enumerate(page.widgets):
        fields = list(one.fields)
        if one.new != "problems":
            # By these, widgets of a page know each other.
            fields.append(("STRING", "reference", f"AAAA{chr(ord('A') + number)}"))
        yield _widget(one.new, one.name, (one.x, one.y, one.width, one.height), sorted(fields, key=lambda f: f[1]))


def _old(page: Page) -> Iterator[Part]:
    for one in _without_gaps([one for one in page.widgets if one.old]):
        yield _widget(one.old, one.name, (one.x // 3, one.y, one.width // 3, one.height), _in_order(one.old_fields))


def _without_gaps(of: Sequence[Widget]) -> list[Widget]:
    """Rows move up to where others were that 6.0 does not have."""
    tops, y = {}, 0
    for row in sorted({one.y for one in of}):
        tops[row] = y
        y += max(one.height for one in of if one.y == row)
    return [replace(one, y=tops[one.y]) for one in of]


def _in_order(fields: Sequence[Field]) -> list[Field]:
    """As Zabbix 6.0 has them: by kind, then by name."""
    kinds = ("INTEGER", "STRING", "ITEM", "GRAPH", "GRAPH_PROTOTYPE")
    return sorted(fields, key=lambda field: (kinds.index(field[0]), field[1]))


def _widget(kind: str, name: str, place: tuple[int, int, int, int], fields: Sequence[Field]) -> Part:
    x, y, width, height = place
    return without_nothing(
        {
            "type": kind,
            "name": name,
            "x": str(x) if x else None,
            "y": str(y) if y else None,
            "width": str(width),
            "height": str(height),
            "fields": [{"type": of, "name": called, "value": value} for of, called, value in fields],
        }
    )


def of_the_site(of: Sequence[Widget], version: str, group: str) -> list[Part]:
    """The same widgets for all hosts of a group, as the module `zabbix_dashboard` takes them."""
    kinds = {"INTEGER": "integers", "STRING": "texts", "ITEM": "items"}
    old_kinds = {"PLAIN_TEXT": "plaintext", "ITEM": "item"}
    is_old, found = version == "6.0", []
    if is_old:
        # Unlike a template's, a dashboard of its own may have the problems.
        of = _without_gaps([one for one in of if one.old or one.new == "problems"])
    for number, one in enumerate(of):
        said: dict[str, dict[str, Any]] = {"integers": {}, "texts": {}, "groups": {}, "items": {}}
        for kind, name, value in one.old_fields if is_old and one.old else one.fields:
            said[kinds[kind]][name] = [value["host"], value["key"]] if kind == "ITEM" else value
        if one.new in ("problems", "honeycomb"):
            said["groups"]["groupids" if is_old else "groupids.0"] = group
        if one.new == "problems":
            said["integers"]["show_tags"] = "3"
            said["texts"]["tag_priority"] = "service,scope,vcr-kind"
        if not is_old:
            said["texts"]["reference"] = f"BBBB{chr(ord('A') + number)}"
        scale = 3 if is_old else 1
        place = {"x": one.x // scale, "y": one.y, "width": one.width // scale, "height": one.height}
        kind = one.new if not is_old else old_kinds.get(one.old, one.new)
        found.append({"type": kind, "name": one.name, **place, **{key: part for key, part in said.items() if part}})
    return found
