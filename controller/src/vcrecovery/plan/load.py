"""Reads a plan file and reports everything that is wrong with it at once, each with its line and key."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from vcrecovery.errors import UsageError
from vcrecovery.plan.agents import agent_problems, agent_warnings
from vcrecovery.plan.fields import NAME_PATTERN
from vcrecovery.plan.groups import group_problems
from vcrecovery.plan.model import Plan
from vcrecovery.plan.names import record_problems, record_warnings

Key = tuple[str | int, ...]
_MERGE = "tag:yaml.org,2002:merge"
#: What aliases may come to, written out.
_MOST_VALUES = 1_000_000
#: What pydantic says in its own words.
_MESSAGES = {
    "extra_forbidden": "is no key of the plan",
    "model_type": "should be a mapping of keys to values",
    "model_attributes_type": "should be a mapping of keys to values",
    "dict_type": "should be a mapping of keys to values",
    "path_type": "should be a path",
}


@dataclass(frozen=True, order=True)
class Problem:
    """One thing wrong with a plan. `line` counts from 1; 0 when the place has none."""

    line: int
    key: str
    message: str

    def __str__(self) -> str:
        place = f"line {self.line}: " if self.line else ""
        return f"{place}{self.key}: {self.message}" if self.key else f"{place}{self.message}"


class PlanError(UsageError):
    """The plan cannot be used; `problems` has every reason."""

    def __init__(self, path: Path, problems: list[Problem]) -> None:
        self.path = path
        self.problems = problems
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"plan {path}: {problems[0]}{more}", f"see `vcrecovery plan check --plan {path}`")


class _Reader:
    """Turns YAML nodes into data, and remembers the line of each key."""

    def __init__(self) -> None:
        self.lines: dict[Key, int] = {}
        self.problems: list[Problem] = []
        self._values: Any = yaml.constructor.SafeConstructor()

    def data(self, node: yaml.Node | None, key: Key = ()) -> Any:
        if node is None:
            return None
        self.lines.setdefault(key, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            mapping: dict[str, Any] = {}
            for name_node, value_node in node.value:
                if not isinstance(name_node, yaml.ScalarNode):
                    self._wrong(name_node, key, "a key is a word, not a list or a mapping")
                    continue
                name = str(name_node.value)
                here = (*key, name)
                self.lines[here] = name_node.start_mark.line + 1
                if name_node.tag == _MERGE:
                    self._wrong(name_node, here, "merge keys are not read: write out what it merges")
                    continue
                if name in mapping:
                    self.problems.append(Problem(self.lines[here], dotted(here), "this key stands here twice"))
                mapping[name] = self.data(value_node, here)
            return mapping
        if isinstance(node, yaml.SequenceNode):
            return [self.data(item, (*key, index)) for index, item in enumerate(node.value)]
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
        while key and key not in self.lines:
            key = key[:-1]
        return self.lines.get(key, 0)


def _composed(text: str) -> yaml.Node | None:
    """Raises YAMLError. libyaml is ten times as quick; PyYAML's own parser says better what is wrong."""
    try:
        return yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError:
        return yaml.compose(text, Loader=yaml.SafeLoader)


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


def _message(item: Any) -> str:
    """What one thing that pydantic found means."""
    message: str = _MESSAGES.get(item["type"], item["msg"].removeprefix("Value error, "))
    if item["type"] == "string_pattern_mismatch" and item["ctx"]["pattern"] == NAME_PATTERN:
        message = "is no name: small letters, digits and dashes, at most 63"
    return message if message[1:2].isupper() else message[:1].lower() + message[1:]


def dotted(key: Key) -> str:
    text = ""
    for part in key:
        if isinstance(part, str) and not part.isprintable():
            part = repr(part)[1:-1]
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _references(raw: Any) -> Iterator[tuple[Key, str, Any, Any]]:
    """(key of the reference, what it names, the name, where the names are) for all that the plan refers to by name."""

    def table(*path: str) -> Any:
        here = raw
        for part in path:
            here = here.get(part) if isinstance(here, dict) else None
        return here if isinstance(here, dict) else {}

    for zone, entry in table("dns", "zones").items():
        if isinstance(entry, dict):
            here: Key = ("dns", "zones", str(zone))
            servers = entry.get("servers")
            for index, server in enumerate(servers if isinstance(servers, list) else []):
                yield (*here, "servers", index), "DNS server", server, table("dns", "servers")
            yield (*here, "key"), "TSIG key", entry.get("key"), table("dns", "keys")
    for name, hypervisor in table("hypervisors").items():
        agent = hypervisor.get("snmp") if isinstance(hypervisor, dict) else None
        if isinstance(agent, dict) and "user" in agent:
            yield ("hypervisors", name, "snmp", "user"), "SNMP user", agent["user"], table("snmp", "users")
    for name, service in table("services").items():
        for part, field, what, where in (
            ("primary", "hypervisor", "hypervisor", table("hypervisors")),
            ("standby", "secondary", "secondary", table("secondaries")),
        ):
            section = service.get(part) if isinstance(service, dict) else None
            if isinstance(section, dict) and field in section:
                yield ("services", name, part, field), what, section[field], where
        needs = service.get("needs") if isinstance(service, dict) else None
        for index, need in enumerate(needs if isinstance(needs, list) else []):
            yield ("services", name, "needs", index), "service", need, table("services")
        records = service.get("dns") if isinstance(service, dict) else None
        for index, record in enumerate(records if isinstance(records, list) else []):
            if isinstance(record, dict) and "zone" in record:
                yield ("services", name, "dns", index, "zone"), "zone", record["zone"], table("dns", "zones")
    for name, group in table("groups").items():
        members = group.get("services") if isinstance(group, dict) else None
        for index, member in enumerate(members if isinstance(members, list) else []):
            yield ("groups", name, "services", index), "service", member, table("services")


def suggest(word: str, known: list[str]) -> str:
    """`(known: a, b; did you mean a?)` for an error line."""
    if not known:
        return "(none is defined)"
    near = difflib.get_close_matches(word, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    shown = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
    return f"(known: {shown}{hint})"


def _consistency(plan: Plan) -> Iterator[tuple[Key, str]]:
    """What no single field shows."""
    taken: dict[str, str] = {}
    for name, service in plan.services.items():
        here: Key = ("services", name)
        for kind, value, key in (
            ("VM", str(service.primary.uuid), (*here, "primary", "uuid")),
            ("address", str(service.standby.address), (*here, "standby", "address")),
            ("address", str(service.standby.address6 or ""), (*here, "standby", "address6")),
            ("address", str(service.virtual_ip.address.ip if service.virtual_ip else ""), (*here, "virtual_ip")),
        ):
            if not value:
                continue
            if other := taken.get(value):
                yield key, f"{kind} {value} already belongs to service {other}"
            taken[value] = name
        if service.primary.address == service.standby.address:
            yield (*here, "standby", "address"), "is the primary's own address; a failover could not move DNS"
        secondary = plan.secondaries.get(service.standby.secondary)
        if secondary and service.standby.address not in secondary.network.address.network:
            network = secondary.network.address.network
            yield (*here, "standby", "address"), f"is outside the secondary's network {network}"
        elif secondary and (whose := _taken(service.standby.address, secondary.network.address)):
            yield (*here, "standby", "address"), f"is {whose}"
        primary = service.primary.address
        if primary.is_unspecified or primary.is_multicast:
            yield (*here, "primary", "address"), "is no address of one machine"
        if (address6 := service.standby.address6) and secondary:
            network6 = secondary.network.address6
            if network6 is None:
                yield (*here, "standby", "address6"), "needs the secondary's network.address6"
            elif address6 not in network6.network:
                yield (*here, "standby", "address6"), f"is outside the secondary's network {network6.network}"
        if service.virtual_ip and service.virtual_ip.address.version == 6 and not service.standby.address6:
            yield (*here, "virtual_ip", "address"), "is IPv6, which needs standby.address6"
        for index, path in enumerate(service.sync.exclude):
            if not path.startswith("/") or path == "/":
                yield (*here, "sync", "exclude", index), f"{path!r} is no absolute path below /"


def _taken(address: IPv4Address, bridge: IPv4Interface) -> str:
    """Whose address it is already in the standbys' network; empty if nobody's."""
    network = bridge.network
    if address == bridge.ip:
        return "the address of the network's bridge itself"
    if network.prefixlen < 31 and address == network.network_address:
        return "the network's own address"
    if network.prefixlen < 31 and address == network.broadcast_address:
        return "the network's broadcast address"
    return ""


def _place(raw: Any, location: tuple[int | str, ...]) -> Key:
    """The key that pydantic means: without `[key]`, and without the names that it gives to the kinds of a section."""
    key: list[str | int] = []
    for number, part in enumerate(location):
        last = number == len(location) - 1
        if part == "[key]" or (isinstance(raw, dict) and not last and part not in raw):
            continue
        key.append(part)
        try:
            raw = raw[part]
        except (KeyError, IndexError, TypeError):
            raw = None
    return tuple(key)


def load_plan(path: Path) -> Plan:
    """The plan in `path`.

    Raises PlanError with every problem found.
    """
    return load_with_warnings(path)[0]


def load_with_warnings(path: Path) -> tuple[Plan, list[Problem]]:
    """The plan in `path`, and what may be meant so but delays or endangers a recovery.

    Raises PlanError with every problem found.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise PlanError(path, [Problem(0, "", f"cannot be read: {reason}")]) from error
    reader = _Reader()
    try:
        node = _composed(text)
        if node is not None and "*" in text:
            _check_aliases(node, {})
        raw = reader.data(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or "it is not YAML"
        raise PlanError(path, [Problem(mark.line + 1 if mark else 0, "", f"not valid YAML: {what}")]) from error
    except (_EndlessError, RecursionError) as error:
        what = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise PlanError(path, [Problem(0, "", f"not valid YAML: {what}")]) from error
    problems = list(reader.problems)
    if not isinstance(raw, dict):
        raise PlanError(path, [Problem(1, "", "is empty, or no mapping of keys to values")])
    for key, what, name, where in _references(raw):
        if isinstance(name, str) and name.rstrip(".").lower() not in where and name not in where:
            problems.append(
                Problem(reader.line(key), dotted(key), f"no {what} is called {name!r} {suggest(name, list(where))}")
            )
    plan = None
    try:
        plan = Plan.model_validate(raw)
    except ValidationError as error:
        for item in error.errors():
            key = _place(raw, item["loc"])
            problems.append(Problem(reader.line(key), dotted(key), _message(item)))
    if plan is not None:
        found = (*_consistency(plan), *record_problems(plan), *group_problems(plan), *agent_problems(plan))
        problems += [Problem(reader.line(key), dotted(key), message) for key, message in found]
    if problems or plan is None:
        raise PlanError(path, sorted(set(problems)))
    doubtful = (*record_warnings(plan), *agent_warnings(plan))
    return plan, sorted(Problem(reader.line(key), dotted(key), message) for key, message in doubtful)
