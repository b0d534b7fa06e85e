"""The roles' templates, as Ansible would fill them in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jinja2


def render(template: Path, **variables: Any) -> str:
    env = jinja2.Environment(undefined=jinja2.StrictUndefined)  # noqa: S701  it is no HTML
    env.filters["to_json"] = json.dumps
    return env.from_string(template.read_text()).render(ansible_managed="a pair", **variables) + "\n"
