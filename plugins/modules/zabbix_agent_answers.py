#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0 OR GPL-3.0-or-later
# Apache License 2.0 (see LICENSE) or, as modules of Ansible have to be, at your choice
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether Zabbix reaches an agent by what it knows now: the address, port and key of its host."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: zabbix_agent_answers
short_description: Waits until Zabbix's server has been answered by an agent
version_added: 0.1.0
author:
  - The VCRecovery authors (@vcrecovery)
description:
  - Gives the host a new item, waits until the server has a value of it, and removes it. So the server has read what the host's
    connection was when the module began, and the agent takes that.
  - Runs with the connection P(ansible.netcommon.httpapi#connection) and P(community.zabbix.zabbix#httpapi).
options:
  host:
    description: The technical name of the host, which has an interface of an agent.
    type: str
    required: true
  timeout:
    description: Seconds. The server reads changes every C(CacheUpdateFrequency), and asks an agent that was away once a minute.
    type: int
    default: 300
attributes:
  check_mode:
    description: Can run in check mode. It does nothing then.
    support: full
"""

EXAMPLES = r"""
- name: Wait until Zabbix reaches the controller's agent
  vcrecovery.standby.zabbix_agent_answers:
    host: vcrecovery-controller
"""

RETURN = r"""
seconds:
  description: How long that took.
  type: float
  returned: when it answers
"""

import time

from ansible.module_utils.basic import AnsibleModule

try:
    from ansible_collections.community.zabbix.plugins.module_utils.base import ZabbixBase
except ImportError:
    ZabbixBase = object

# No template's: those ask without the word.
KEY = "system.localtime[utc]"


class Asked(ZabbixBase):
    """An item of the host, for as long as it is waited for."""

    def __init__(self, module):
        super().__init__(module)
        self.module = module
        self.name = module.params["host"]
        question = {"filter": {"host": [self.name]}, "output": ["hostid"], "selectInterfaces": "extend"}
        found = self._zapi.host.get(question)
        interfaces = [one for host in found for one in host["interfaces"] if (one["type"], one["main"]) == ("1", "1")]
        if not interfaces:
            module.fail_json(msg=f"Zabbix has no host {self.name} with an agent")
        self.number, self.interface = found[0]["hostid"], interfaces[0]

    def remove(self):
        """Also that of a module that was killed."""
        found = self._zapi.item.get({"hostids": [self.number], "filter": {"key_": [KEY]}, "output": ["itemid"]})
        if found:
            self._zapi.item.delete([item["itemid"] for item in found])

    def wait(self):
        begun, timeout = time.monotonic(), self.module.params["timeout"]
        self.remove()
        made = self._zapi.item.create(
            {
                "hostid": self.number,
                "name": "VCRecovery: whether it answers",
                "key_": KEY,
                # Of an agent that is asked; a whole number.
                "type": 0,
                "value_type": 3,
                "interfaceid": self.interface["interfaceid"],
                "delay": "1s",
                "history": "1h",
                "trends": "0",
            }
        )
        try:
            while not self.has_value(made["itemids"][0]):
                if time.monotonic() - begun > timeout:
                    self.module.fail_json(msg=self.unanswered())
                time.sleep(0.5)
        finally:
            self.remove()
        return time.monotonic() - begun

    def has_value(self, item):
        (found,) = self._zapi.item.get({"itemids": [item], "output": ["lastclock"]})
        return found["lastclock"] != "0"

    def unanswered(self):
        place = self.interface["ip"] or self.interface["dns"]
        (now,) = self._zapi.hostinterface.get({"interfaceids": [self.interface["interfaceid"]], "output": ["error"]})
        said = f" ({now['error']})" if now["error"] else ""
        where = f"{self.name} at {place}, port {self.interface['port']}"
        return f"in {self.module.params['timeout']} s the agent {where} has not answered Zabbix's server{said}; may it connect there?"


def main():
    module = AnsibleModule(
        argument_spec={"host": {"type": "str", "required": True}, "timeout": {"type": "int", "default": 300}},
        supports_check_mode=True,
    )
    if ZabbixBase is object:
        module.fail_json(msg="the collection community.zabbix is not installed; ansible-galaxy collection install -r requirements.yml")
    if module.check_mode:
        module.exit_json(changed=False)
    module.exit_json(changed=False, seconds=round(Asked(module).wait(), 1))


if __name__ == "__main__":
    main()
