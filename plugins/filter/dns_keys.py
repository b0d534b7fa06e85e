# SPDX-License-Identifier: Apache-2.0
"""Which TSIG keys the name servers of a plan share."""

from __future__ import annotations

DOCUMENTATION = r"""
name: dns_keys
short_description: The TSIG keys of a plan's name servers
version_added: 0.2.0
author:
  - The VCRecovery authors (@vcrecovery)
description:
  - Lists the keys for updates, which the plan names, and one for the transfers of those zones that have several servers.
  - A server that only transfers a zone never gets the key that changes it.
positional: _input
options:
  _input:
    description: The plan.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the keys
  ansible.builtin.debug:
    msg: "{{ vcrecovery_plan | vcrecovery.standby.dns_keys }}"
"""

RETURN = r"""
_value:
  description:
    - A mapping for each key, with its C(file), C(name), C(algorithm) and C(secret_file) (empty for transfers), the
      server that makes it (C(origin)), and all C(servers) that need it.
  type: list
  elements: dict
"""


from ansible_collections.vcrecovery.standby.plugins.plugin_utils.plan_schema import with_defaults


def dns_keys(plan):
    found = []
    zones = plan.get("dns", {}).get("zones", {}).values()
    for file, key in plan.get("dns", {}).get("keys", {}).items():
        groups = [zone["servers"] for zone in zones if zone["key"] == file]
        if not groups:
            continue
        algorithm, origin = with_defaults(key, "TsigKey")["algorithm"], groups[0][0]
        wanted = [
            (file, key["name"], key["secret_file"], [servers[0] for servers in groups]),
            (
                f"{file}-transfer",
                f"transfer.{key['name']}",
                "",
                [server for servers in groups if len(servers) > 1 for server in servers],
            ),
        ]
        for name_of_file, name, secret_file, servers in wanted:
            if servers:
                found.append(
                    {
                        "file": name_of_file,
                        "name": name,
                        "algorithm": algorithm,
                        "secret_file": secret_file,
                        "origin": origin if origin in servers else servers[0],
                        "servers": list(dict.fromkeys(servers)),
                    }
                )
    return found


class FilterModule:
    """The filters of this file."""

    def filters(self):
        return {"dns_keys": dns_keys}
