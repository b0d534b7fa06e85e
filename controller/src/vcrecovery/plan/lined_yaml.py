"""YAML as data, with the line of each key. What a plan has no use for is a problem: merge keys, tags that lie, aliases
without an end.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from vcrecovery.plan.problems import Key, Problem, dotted

_MERGE = "tag:yaml.org,2002:merge"
#: What aliases may come to, written out.
_MOST_VALUES = 1_000_000
_DEEPEST = 1000


class NotYamlError(Exception):
    """It cannot be read as YAML at all. `line` counts from 1; 0 when the place is not known."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line


class LinedYaml:
    """`data`, the `problems` with it, and the line of each key. Raises NotYamlError."""

    def __init__(self, text: str) -> None:
        self.problems: list[Problem] = []
        self._lines: dict[Key, int] = {}
        self._values: Any = yaml.constructor.SafeConstructor()
        try:
            node = _composed(text)
            if node is not None and "*" in text:
                _check_aliases(node, {})
            self.data = self._data(node)
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            raise NotYamlError(line, f"{chr(error.character)!r} is no character of YAML") from error
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            what = getattr(error, "problem", None) or "it is not YAML"
            raise NotYamlError(mark.line + 1 if mark else 0, what) from error
        except _EndlessError as error:
            raise NotYamlError(0, str(error)) from error
        except RecursionError as error:
            raise NotYamlError(0, "it is nested too deeply") from error

    def _data(self, node: yaml.Node | None, key: Key = ()) -> Any:
        if node is None:
            return None
        self._lines.setdefault(key, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            mapping: dict[str, Any] = {}
            for name_node, value_node in node.value:
                if not isinstance(name_node, yaml.ScalarNode):
                    self._wrong(name_node, key, "a key is a word, not a list or a mapping")
                    continue
                name = str(name_node.value)
                here = (*key, name)
                self._lines[here] = name_node.start_mark.line + 1
                if name_node.tag == _MERGE:
                    self._wrong(name_node, here, "merge keys are not read: write out what it merges")
                    continue
                if name in mapping:
                    self.problems.append(Problem(self._lines[here], dotted(here), "this key is given twice"))
                mapping[name] = self._data(value_node, here)
            return mapping
        if isinstance(node, yaml.SequenceNode):
            return [self._data(item, (*key, index)) for index, item in enumerate(node.value)]
        try:
            return self._values.construct_object(node, deep=True)
        except (ValueError, LookupError, AttributeError, yaml.YAMLError):
            # Its constructors trust that whoever writes a tag writes a value of that kind.
            kind = node.tag.rpartition(":")[2].lstrip("!")
            self._wrong(node, key, f"not valid YAML: {node.value!r:.40} is no {kind}")
            return None

    def _wrong(self, node: yaml.Node, key: Key, message: str) -> None:
        self.problems.append(Problem(node.start_mark.line + 1, dotted(key), message))

    def line(self, key: Key) -> int:
        while key and key not in self._lines:
            key = key[:-1]
        return self._lines.get(key, 0)


def _composed(text: str) -> yaml.Node | None:
    """Raises YAMLError. libyaml is ten times as quick; PyYAML's own parser says better what is wrong."""
    try:
        _check_depth(text)
        return yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError:
        return yaml.compose(text, Loader=yaml.SafeLoader)


def _check_depth(text: str) -> None:
    """Raises RecursionError. What composes libyaml's events has no such bound, and ends the program."""
    # Each level takes a bracket, or a column before the line's first word; most plans have too few of both.
    columns = max(map(len, re.findall(r"(?m)^[ ?-]*", text)))
    if text.count("[") + text.count("{") + columns <= _DEEPEST:
        return
    depth = 0
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise RecursionError


class _EndlessError(Exception):
    """A value of the plan is within itself, or is far too large. Says so."""


def _check_aliases(node: yaml.Node, sizes: dict[int, int]) -> int:
    """How many values it is when every alias is written out. Raises _EndlessError."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) not in sizes:
        sizes[id(node)] = 0
        parts = (part for entry in node.value for part in (entry if isinstance(entry, tuple) else (entry,)))
        sizes[id(node)] = 1 + sum(_check_aliases(part, sizes) for part in parts)
    size = sizes[id(node)]
    if not size:
        raise _EndlessError("a value stands for itself, by an alias")
    if size > _MOST_VALUES:
        raise _EndlessError(f"its aliases stand for more than {_MOST_VALUES} values")
    return size
