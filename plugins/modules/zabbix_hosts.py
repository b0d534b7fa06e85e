#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0 OR GPL-3.0-or-later
# Apache License 2.0 (see LICENSE) or, as modules of Ansible have to be, at your choice
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
"""Many hosts in Zabbix by a handful of calls: community.zabbix.zabbix_host takes seconds for each of them."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: zabbix_hosts
short_description: Makes sure that hosts are in Zabbix, all of them at once
version_added: 0.1.0
author:
  - The VCRecovery authors (@vcrecovery)
description:
  - Makes the hosts that are missing, without interfaces, and gives the others the groups, templates and macros that they
    lack. What an operator has added beside these stays.
  - Runs with the connection P(ansible.netcommon.httpapi#connection) and P(community.zabbix.zabbix#httpapi).
options:
  hosts:
    description: The hosts.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: The technical name.
        type: str
        required: true
      groups:
        description: Host groups that it is in.
        type: list
        elements: str
        required: true
      templates:
        description: Templates that it is linked to.
        type: list
        elements: str
        required: true
      macros:
        description: Macros and their values.
        type: dict
        required: true
attributes:
  check_mode:
    description: Can run in check mode. Groups and templates may be missing then.
    support: full
"""

EXAMPLES = r"""
- name: Two hypervisors
  vcrecovery.standby.zabbix_hosts:
    hosts:
      - name: hv1
        groups: [VCRecovery]
        templates: [VCRecovery hypervisor]
        macros: {"{$VCR.SITE}": main}
"""

RETURN = r"""
made:
  description: Names of hosts that were not there.
  type: list
  elements: str
  returned: always
altered:
  description: Names of hosts that lacked something.
  type: list
  elements: str
  returned: always
"""

from ansible.module_utils.basic import AnsibleModule

try:
    from ansible_collections.community.zabbix.plugins.module_utils.base import ZabbixBase
except ImportError:
    ZabbixBase = object


class Hosts(ZabbixBase):
    """What is there, and what makes it as it should be."""

    def __init__(self, module):
        super().__init__(module)
        self.module = module
        self.wanted = module.params["hosts"]
        self.old = int(self._zbx_api_version.split(".", maxsplit=1)[0]) < 7
        self.groups = self.numbers(self._zapi.hostgroup, "groups", "name", "groupid")
        self.templates = self.numbers(self._zapi.template, "templates", "host", "templateid")

    def numbers(self, section, field, by, number):
        """Zabbix's numbers of all groups or templates that are named."""
        names = sorted({name for host in self.wanted for name in host[field]})
        found = {one[by]: one[number] for one in section.get({"filter": {by: names}, "output": [by, number]})}
        missing = [name for name in names if name not in found]
        if missing and not self.module.check_mode:
            self.module.fail_json(msg=f"Zabbix has no {field} {', '.join(missing)}")
        return found

    def present(self):
        """The hosts that are there, by name."""
        groups = "selectGroups" if self.old else "selectHostGroups"
        question = {
            "filter": {"host": [host["name"] for host in self.wanted]},
            "output": ["hostid", "host"],
            groups: ["name"],
            "selectParentTemplates": ["host"],
            "selectMacros": ["macro", "value", "hostmacroid"],
        }
        return {one["host"]: one for one in self._zapi.host.get(question)}

    def ensure(self):
        made, altered, present = [], [], self.present()
        for host in self.wanted:
            there = present.get(host["name"])
            if there is None:
                made.append(host["name"])
                if not self.module.check_mode:
                    self.make(host)
            elif self.complete(host, there):
                altered.append(host["name"])
        return {"changed": bool(made or altered), "made": made, "altered": altered}

    def make(self, host):
        macros = [{"macro": name, "value": str(value)} for name, value in sorted(host["macros"].items())]
        self._zapi.host.create(
            {
                "host": host["name"],
                "groups": [{"groupid": self.groups[name]} for name in host["groups"]],
                "templates": [{"templateid": self.templates[name]} for name in host["templates"]],
                "macros": macros,
            }
        )

    def complete(self, host, there):
        """Whether it lacked something, which it has now."""
        # Renamed in 6.2.
        grouped = {group["name"] for group in there.get("hostgroups", there.get("groups", []))}
        linked = {template["host"] for template in there["parentTemplates"]}
        known = {macro["macro"]: macro for macro in there["macros"]}
        groups = [name for name in host["groups"] if name not in grouped]
        templates = [name for name in host["templates"] if name not in linked]
        macros = {name: str(value) for name, value in host["macros"].items()}
        macros = {name: value for name, value in macros.items() if known.get(name, {}).get("value") != value}
        if not (groups or templates or macros):
            return False
        if self.module.check_mode:
            return True
        # The macros first: with a new template its triggers begin to be judged by them.
        for name, value in sorted(macros.items()):
            if name in known:
                self._zapi.usermacro.update({"hostmacroid": known[name]["hostmacroid"], "value": value})
            else:
                self._zapi.usermacro.create({"hostid": there["hostid"], "macro": name, "value": value})
        if groups or templates:
            self._zapi.host.massadd(
                {
                    "hosts": [{"hostid": there["hostid"]}],
                    "groups": [{"groupid": self.groups[name]} for name in groups],
                    "templates": [{"templateid": self.templates[name]} for name in templates],
                }
            )
        return True


def main():
    module = AnsibleModule(
        argument_spec={
            "hosts": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "name": {"type": "str", "required": True},
                    "groups": {"type": "list", "elements": "str", "required": True},
                    "templates": {"type": "list", "elements": "str", "required": True},
                    "macros": {"type": "dict", "required": True},
                },
            }
        },
        supports_check_mode=True,
    )
    if ZabbixBase is object:
        module.fail_json(msg="the collection community.zabbix is not installed; ansible-galaxy collection install -r requirements.yml")
    module.exit_json(**Hosts(module).ensure())


if __name__ == "__main__":
    main()
