#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0 OR GPL-3.0-or-later
# Apache License 2.0 (see LICENSE) or, as modules of Ansible have to be, at your choice
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
"""A global dashboard in Zabbix: no module of community.zabbix makes one."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: zabbix_dashboard
short_description: Makes sure that a dashboard of one page is in Zabbix, with these widgets
version_added: 0.1.0
author:
  - The VCRecovery authors (@vcrecovery)
description:
  - Makes the dashboard, for all users to see, or gives it exactly these widgets. Who owns it and whom it is shared with stays.
  - Runs with the connection P(ansible.netcommon.httpapi#connection) and P(community.zabbix.zabbix#httpapi).
options:
  name:
    description: Its name, by which it is found again.
    type: str
    required: true
  widgets:
    description: What is on it. Places and fields are those of the server's version.
    type: list
    elements: dict
    required: true
    suboptions:
      type:
        description: The kind of widget.
        type: str
        required: true
      name:
        description: Its title.
        type: str
        default: ""
      x:
        description: Columns to its left.
        type: int
        default: 0
      y:
        description: Rows above it.
        type: int
        default: 0
      width:
        description: In columns.
        type: int
        required: true
      height:
        description: In rows.
        type: int
        required: true
      integers:
        description: Fields that are numbers.
        type: dict
        default: {}
      texts:
        description: Fields that are text.
        type: dict
        default: {}
      groups:
        description: Fields that are host groups, by their names.
        type: dict
        default: {}
      items:
        description: Fields that are items, each as a list of its host and its key.
        type: dict
        default: {}
attributes:
  check_mode:
    description: Can run in check mode. Groups and items may be missing then.
    support: full
"""

EXAMPLES = r"""
- name: What is wrong
  vcrecovery.standby.zabbix_dashboard:
    name: VCRecovery
    widgets:
      - type: problems
        width: 72
        height: 8
        groups: {groupids.0: VCRecovery}
"""

RETURN = r"""
dashboardid:
  description: Zabbix's number of it.
  type: str
  returned: when it is there
"""

from ansible.module_utils.basic import AnsibleModule

try:
    from ansible_collections.community.zabbix.plugins.module_utils.base import ZabbixBase
except ImportError:
    ZabbixBase = object

INTEGER = 0
TEXT = 1
GROUP = 2
ITEM = 4


class Dashboard(ZabbixBase):
    """What is there, and what makes it as it should be."""

    def __init__(self, module):
        super().__init__(module)
        self.module = module
        self.name = module.params["name"]
        self.widgets = module.params["widgets"]

    def number(self, kind, name, found, key):
        """Zabbix's number of what is named; None in a rehearsal, when it would be made before."""
        if found:
            return found[0][key]
        if not self.module.check_mode:
            self.module.fail_json(msg=f"Zabbix has no {kind} {name}")
        return None

    def group(self, name):
        found = self._zapi.hostgroup.get({"filter": {"name": [name]}, "output": ["groupid"]})
        return self.number("host group", name, found, "groupid")

    def item(self, host, key):
        question = {"host": host, "filter": {"key_": key}, "output": ["itemid"], "webitems": True}
        return self.number("item", f"{key} on {host}", self._zapi.item.get(question), "itemid")

    def fields(self, widget):
        yield from ((INTEGER, name, str(value)) for name, value in widget["integers"].items())
        yield from ((TEXT, name, str(value)) for name, value in widget["texts"].items())
        yield from ((GROUP, name, self.group(value)) for name, value in widget["groups"].items())
        yield from ((ITEM, name, self.item(*value)) for name, value in widget["items"].items())

    def wanted(self):
        return [
            {
                "type": widget["type"],
                "name": widget["name"],
                "x": str(widget["x"]),
                "y": str(widget["y"]),
                "width": str(widget["width"]),
                "height": str(widget["height"]),
                "fields": [{"type": str(kind), "name": name, "value": value} for kind, name, value in self.fields(widget)],
            }
            for widget in self.widgets
        ]

    @staticmethod
    def comparable(widgets):
        """Without Zabbix's own numbers, and in any order."""
        keys = ("type", "name", "x", "y", "width", "height")
        return sorted(
            (
                tuple(str(widget[key]) for key in keys),
                tuple(sorted((str(field["type"]), field["name"], str(field["value"])) for field in widget["fields"])),
            )
            for widget in widgets
        )

    def ensure(self):
        question = {"filter": {"name": [self.name]}, "selectPages": "extend", "output": ["dashboardid"]}
        there = next(iter(self._zapi.dashboard.get(question)), None)
        wanted = self.wanted()
        if there is not None and len(there["pages"]) == 1:
            if self.comparable(there["pages"][0]["widgets"]) == self.comparable(wanted):
                return {"changed": False, "dashboardid": there["dashboardid"]}
        if self.module.check_mode:
            return {"changed": True}
        # Zabbix makes the widgets anew that come without its number.
        pages = [{"widgets": wanted}]
        if there is None:
            made = self._zapi.dashboard.create({"name": self.name, "private": 0, "pages": pages})
            return {"changed": True, "dashboardid": made["dashboardids"][0]}
        self._zapi.dashboard.update({"dashboardid": there["dashboardid"], "pages": pages})
        return {"changed": True, "dashboardid": there["dashboardid"]}


def main():
    whole = {"type": "int", "default": 0}
    fields = {"type": "dict", "default": {}}
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "widgets": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "type": {"type": "str", "required": True},
                    "name": {"type": "str", "default": ""},
                    "x": whole,
                    "y": whole,
                    "width": {"type": "int", "required": True},
                    "height": {"type": "int", "required": True},
                    "integers": fields,
                    "texts": fields,
                    "groups": fields,
                    "items": fields,
                },
            },
        },
        supports_check_mode=True,
    )
    if ZabbixBase is object:
        module.fail_json(msg="the collection community.zabbix is not installed; ansible-galaxy collection install -r requirements.yml")
    module.exit_json(**Dashboard(module).ensure())


if __name__ == "__main__":
    main()
