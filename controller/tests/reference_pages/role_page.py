"""`docs/reference/roles.md` and the README of each role: its variables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import fill
from typing import Any

import yaml

from reference_pages.markdown import WIDTH, code, head, table

ROLES = Path(__file__).parents[3] / "roles"
#: The group of the example's inventory that each role is for.
_HOSTS = {
    "controller": "controllers",
    "dns": "dns_servers",
    "hypervisor": "hypervisors",
    "monitoring": "monitoring",
    "primary": "primaries",
    "secondary": "secondaries",
    "secondary_vm": "hypervisors",
}
Options = Mapping[str, Mapping[str, Any]]
_EXAMPLE = """\
```yaml
- hosts: {hosts}
  become: true
  roles:
    - role: vcrecovery.standby.{role}
```
"""
_ABOUT = (
    "An entry point other than `main` is a `tasks_from` of `ansible.builtin.include_role`. A default in braces is "
    "computed from other variables."
)


def _text(said: str | list[str]) -> str:
    """Without Ansible's markup."""
    joined = said if isinstance(said, str) else " ".join(said)
    return re.sub(r"\b[CVOE]\(([^)]*)\)", r"`\1`", joined)


def _rows(options: Options, defaults: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, ...]]:
    for name, option in options.items():
        kind = option.get("type", "str")
        if "elements" in option:
            kind = f"list of {option['elements']}"
        if "choices" in option:
            kind = ", ".join(code(str(choice)) for choice in option["choices"])
        default = option.get("default", defaults.get(name) if not prefix else None)
        shown = default if isinstance(default, str) else json.dumps(default)
        cell = "*required*" if option.get("required") else code("" if default is None else shown)
        yield code(prefix + name), kind, cell, _text(option["description"])
        yield from _rows(option.get("options", {}), {}, f"{prefix}{name}.")


def _role(folder: Path, title: str = "## {role}", part: str = "### {role}, {entry}") -> Iterator[str]:
    defaults = yaml.safe_load((folder / "defaults/main.yml").read_text())
    specs = yaml.safe_load((folder / "meta/argument_specs.yml").read_text())["argument_specs"]
    for entry, spec in specs.items():
        about = [_text(spec[key]) for key in ("short_description", "description") if key in spec]
        heading = title if entry == "main" else part
        yield heading.format(role=folder.name, entry=code(f"tasks_from: {entry}")) + "\n"
        yield fill(". ".join(text.rstrip(".") for text in about) + ".", WIDTH) + "\n"
        if entry == "main" or spec["options"] != specs["main"]["options"]:
            yield table(("variable", "type", "default", "meaning"), _rows(spec["options"], defaults))
        else:
            yield "The same variables.\n"


def page() -> str:
    parts = [part for folder in sorted(ROLES.iterdir()) for part in _role(folder)]
    return "\n".join([head("Roles", "`roles/*/meta/argument_specs.yml`", _ABOUT), *parts])


def readme(folder: Path) -> str:
    """A role's own, which Galaxy shows."""
    example = _EXAMPLE.format(role=folder.name, hosts=_HOSTS.get(folder.name, "all"))
    parts = _role(folder, title="## Variables", part="## {entry}")
    title = head(f"vcrecovery.standby.{folder.name}", "`meta/argument_specs.yml` and `tasks/main.yml`", _ABOUT)
    return "\n".join([title, example, *_tags(folder), *parts])


def _tags(folder: Path) -> Iterator[str]:
    """What each part does, by the name of its task."""
    tasks = yaml.safe_load((folder / "tasks/main.yml").read_text())
    rows = [(code(tag), task["name"]) for task in tasks for tag in task.get("tags", ()) if tag != "always"]
    if rows:
        yield "## Parts\n"
        yield "`--tags` plays some of them, on a host that has been laid out.\n"
        yield table(("tag", "part"), rows)
