"""Changes a value in the text of a plan, and nothing else of it: comments and order are its owner's."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path

from vcrecovery.plan.lined_yaml import LinedYaml
from vcrecovery.plan.problems import Key, dotted

_KEY = re.compile(r"^(?P<indent> *)(?P<key>[\w-]+):(?P<space> *)(?P<value>[^#\n]*?)(?P<rest> *(?:#.*)?)$")


class NotHereError(Exception):
    """Its place in the text is written in a way that this does not change; says which."""


def edited(text: str, values: Mapping[Key, str]) -> str:
    """`text` with each of these values, written as YAML. Raises NotHereError."""
    for key, value in values.items():
        text = _with(text, key, value)
    return text


def _with(text: str, key: Key, value: str) -> str:
    lines, yaml = text.splitlines(), LinedYaml(text)
    if _is_there(yaml.data, key):
        number = yaml.line(key) - 1
        found = _KEY.match(lines[number])
        if found is None or found["key"] != key[-1] or not found["value"]:
            raise NotHereError(dotted(key))
        lines[number] = f"{found['indent']}{key[-1]}: {value}{found['rest']}"
        return "\n".join(lines) + "\n"
    if not _is_there(yaml.data, key[:-1]):
        raise NotHereError(dotted(key))
    parent = yaml.line(key[:-1]) - 1
    found = _KEY.match(lines[parent])
    child = next((n for n in range(parent + 1, len(lines)) if lines[n].strip() and lines[n].lstrip()[0] != "#"), None)
    if found is None or found["value"] or child is None:
        raise NotHereError(dotted(key))
    indent = len(lines[child]) - len(lines[child].lstrip())
    if indent <= len(found["indent"]):
        raise NotHereError(dotted(key))
    lines.insert(parent + 1, f"{' ' * indent}{key[-1]}: {value}")
    return "\n".join(lines) + "\n"


def _is_there(data: object, key: Key) -> bool:
    for part in key:
        if not isinstance(data, dict) or part not in data:
            return False
        data = data[part]
    return True


def difference(path: Path, before: str, after: str) -> list[str]:
    """As `patch` takes it."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), str(path), str(path), lineterm="", n=2)
    return list(lines)
