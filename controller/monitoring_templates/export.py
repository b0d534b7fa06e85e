"""A file for each version of Zabbix's format."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import yaml

from . import controller, hypervisor, site
from .parts import GROUP, Part, identity
from .widgets import Page, of_the_site, pages, tiles

VERSIONS = ("6.0", "7.0")
_WRITTEN = "# Written by `make templates`: change controller/monitoring_templates instead.\n"
_HEAD = """\
---
# The templates "VCRecovery controller", "VCRecovery hypervisor" and "VCRecovery site", for Zabbix {version}.
{written}"""


class _Dumper(yaml.SafeDumper):
    """Lists stand under their keys with an indent, as ansible-lint and yamllint have it."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        return super().increase_indent(flow, False)


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    if "\n" in text:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|")
    # Others than PyYAML read a colour such as 2E4400 as a number.
    style = '"' if text[:1].isdigit() or text in ("yes", "no") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def _template(module: Any, version: str) -> Part:
    template = copy.deepcopy(module.TEMPLATE)
    made: Sequence[Page] = module.PAGES
    template["dashboards"] = [
        {"uuid": identity(module.NAME, "dashboard"), "name": module.NAME.removeprefix("VCRecovery ").capitalize(),
         # Whoever reads a page does not want the next one.
         "auto_start": "NO", "pages": pages(made, version)}
    ]  # fmt: skip
    if version != "6.0":
        for rule in template.get("discovery_rules", []):
            # As before 7.0: a guest that is gone keeps its problem, and one that comes back its items.
            rule["enabled_lifetime_type"] = "DISABLE_NEVER"
        template["vendor"] = {"name": "VCRecovery", "version": "7.0-1"}
    order = (
        "uuid",
        "template",
        "name",
        "vendor",
        "description",
        "groups",
        "items",
        "discovery_rules",
        "tags",
        "macros",
    )
    return {key: template[key] for key in (*order, "dashboards", "valuemaps") if key in template}


def dashboard(version: str) -> str:
    """Of the whole site: the controller's, for all hosts, with the VMs in place of who serves."""
    x, y, width, height = 48, 7, 24, 5
    vms = tiles(x, y, width, height, "State of *", hypervisor.NAME_OF_VM, name="VMs")
    now = [vms if one.name == "Who serves" else one for one in controller.PAGES[0].widgets if one.new != "item"]
    widgets = of_the_site(now, version, "[% monitoring_group %]")
    for one in widgets:
        # The controller's values are on a host that the plan names.
        items = {name: ["[% monitoring_services_host %]", key] for name, (_, key) in one.get("items", {}).items()}
        one.update({"items": items} if items else {})
    head = f"---\n# The dashboard of a whole site, for Zabbix {version}; the role `monitoring` makes it.\n{_WRITTEN}"
    return head + str(yaml.dump(widgets, Dumper=_Dumper, sort_keys=False, width=140))


def export(version: str) -> str:
    groups = "groups" if version == "6.0" else "template_groups"
    document = {
        "zabbix_export": {
            "version": version,
            groups: [{"uuid": identity("group"), "name": GROUP}],
            "templates": [_template(module, version) for module in (controller, hypervisor, site)],
            "triggers": sorted(
                [hypervisor.SILENT, *site.TRIGGERS, *controller.TRIGGERS], key=lambda one: str(one["name"])
            ),
        }
    }
    text = yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=140, allow_unicode=True)
    return _HEAD.format(version=version, written=_WRITTEN) + str(text)
