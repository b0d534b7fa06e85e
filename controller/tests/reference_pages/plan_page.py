"""`docs/reference/plan.md`: every key of the plan, walked through its JSON Schema in the order of the file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from reference_pages.markdown import anchor, code, head, table
from vcrecovery.plan.fields import DURATION_PATTERN
from vcrecovery.plan.model import Plan

Schema = Mapping[str, Any]
_FORMATS = {
    "ipv4": "IPv4 address",
    "ipv6": "IPv6 address",
    "ipv4interface": "IPv4 address/prefix",
    "ipv6interface": "IPv6 address/prefix",
    "uuid": "UUID",
}
_ABOUT = (
    "`vcrecovery plan check` reports every mistake at once, with line and key; `vcrecovery plan schema` prints the "
    "same reference as JSON Schema, for editors. Unknown keys are errors. A *duration* is a number with a unit "
    "(`200ms`, `90s`, `5m`, `2h`, `1d`), or a number of seconds. NAME is a name of your choice, `[]` an entry of a "
    "list."
)


class _Sections:
    """Each section stands once, where it comes first; later places link there."""

    def __init__(self, schema: Schema) -> None:
        self.definitions: Mapping[str, Schema] = schema.get("$defs", {})
        self.places: dict[str, str] = {}
        self.waiting: list[tuple[str, Schema]] = [("The plan", schema)]

    def pages(self) -> Iterator[str]:
        while self.waiting:
            title, schema = self.waiting.pop(0)
            before, self.waiting = self.waiting, []
            yield self._section(title, schema)
            self.waiting += before

    def _section(self, title: str, schema: Schema) -> str:
        path = "" if title == "The plan" else title
        required = schema.get("required", ())
        rows = []
        for key, field in schema["properties"].items():
            default = "*required*" if key in required else _default(field)
            place = f"{path}.{key}" if path else key
            rows.append((code(key), self._kind(field, place), default, _about(field)))
        about = schema.get("description", "")
        heading = f"## {title}\n\n" + (f"{about}\n\n" if about else "")
        return heading + table(("key", "takes", "default", "meaning"), rows)

    def _kind(self, field: Schema, place: str) -> str:
        if field.get("pattern") == DURATION_PATTERN:
            return "duration"
        if reference := field.get("$ref"):
            return self._link(reference.rpartition("/")[2], place)
        for many in ("anyOf", "oneOf"):
            if many in field:
                return " or ".join(dict.fromkeys(self._kind(one, place) for one in field[many]))
        if "enum" in field or "const" in field:
            return ", ".join(code(str(value)) for value in field.get("enum", [field.get("const")]))
        match field.get("type"):
            case "array":
                return f"list of {self._kind(field['items'], f'{place}[]')}"
            case "object":
                (values,) = field.get("patternProperties", {"": field.get("additionalProperties", {})}).values()
                return f"NAME: {self._kind(values, f'{place}.NAME')}"
            case "null":
                return "null"
            case "boolean":
                return "true or false"
            case kind:
                word = field.get("format", kind)
                return f"{_FORMATS.get(word, word)}{_limits(field)}"

    def _link(self, name: str, place: str) -> str:
        schema = self.definitions[name]
        if "properties" not in schema:
            return self._kind(schema, place)
        if name not in self.places:
            taken = place in self.places.values()  # of several kinds in one place, each has its own section
            self.places[name] = f"{place} ({name.removesuffix('Record').upper()})" if taken else place
            self.waiting.append((self.places[name], schema))
        return f"[{self.places[name]}]({anchor(self.places[name])})"


def _limits(field: Schema) -> str:
    low, high = field.get("minimum"), field.get("maximum")
    above = field.get("exclusiveMinimum")
    least = f"{low:g}" if low is not None else f"more than {above:g}" if above is not None else ""
    if not least:
        return ""
    return f" ({least} to {high:g})" if high is not None else f" ({least} or more)"


def _default(field: Schema) -> str:
    default: Any = field.get("default")
    if default in ({}, ""):
        return ""
    if field.get("pattern") == DURATION_PATTERN:
        return code(_duration(default))
    if isinstance(default, float):
        return code(f"{default:g}")
    return code(default if isinstance(default, str) else json.dumps(default))


def _duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:g}ms"
    size, unit = next((size, unit) for size, unit in ((3600, "h"), (60, "m"), (1, "s")) if seconds % size == 0)
    return f"{seconds / size:g}{unit}"


def _about(field: Schema) -> str:
    examples = [code(text if isinstance(text, str) else json.dumps(text)) for text in field.get("examples", ())]
    about = field.get("description", "")
    return "; ".join(part for part in (about, f"e.g. {', '.join(examples)}" if examples else "") if part)


def page() -> str:
    sections = _Sections(Plan.model_json_schema())
    return "\n".join([head("The plan file", "`controller/src/vcrecovery/plan`", _ABOUT), *sections.pages()])
