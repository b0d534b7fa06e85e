# SPDX-License-Identifier: Apache-2.0
"""What one name server has to do with the zones of a plan."""

from __future__ import annotations

DOCUMENTATION = r"""
name: dns_zones
short_description: The zones that a name server serves
version_added: 0.2.0
author:
  - The VCRecovery authors (@vcrecovery)
description:
  - Lists the plan's zones that one of its servers serves, with what BIND has to know of each.
  - The first server of a zone is its primary; the others transfer it from there.
positional: _input
options:
  _input:
    description: The plan.
    type: dict
    required: true
  server:
    description: The server's name in the plan.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show the zones of ns1
  ansible.builtin.debug:
    msg: "{{ vcrecovery_plan | vcrecovery.standby.dns_zones(server='ns1') }}"
"""

RETURN = r"""
_value:
  description:
    - A mapping for each zone, with its C(name), whether the server is C(primary), the C(source) (the primary's name),
      the C(others) of the zone's servers, the name of its C(key), the name of the first C(transfer_key) and the
      C(transfer_file) of it and those after it, the C(files) of the keys that the server needs, the C(grants) of the
      update-policy, and the C(records) of its first content.
  type: list
  elements: dict
"""


from ansible_collections.vcrecovery.standby.plugins.plugin_utils.plan_schema import with_defaults


def values(record, service):
    """What the record holds while the primary serves; the plan's own rule, which `vcrecovery plan check` enforces."""
    kind, own = record["type"], record["primary"]
    if kind == "SRV":
        return "{} {} {} {}.".format(own["priority"], own["weight"], own["port"], own["target"].rstrip("."))
    if kind == "CNAME":
        return own.rstrip(".") + "."
    return own or service["primary"]["address6" if kind == "AAAA" else "address"]


def dns_zones(plan, server):
    found = []
    for name, zone in plan.get("dns", {}).get("zones", {}).items():
        if server not in zone["servers"]:
            continue
        source = zone["servers"][0]
        others = [other for other in zone["servers"] if other != server]
        key = plan["dns"]["keys"][zone["key"]]["name"]
        grants, records = [], []
        for service in plan.get("services", {}).values():
            for record in with_defaults(service.get("dns", []), "Service.dns"):
                if record["zone"] != name:
                    continue
                text, kind = record["name"].rstrip("."), record["type"]
                records.append(f"{text}. {record['ttl']} IN {kind} {values(record, service)}")
                grants += [f"name {text}. {kind}", f"name _vcrecovery.{text}. TXT"]
        primary = server == source
        files = [zone["key"]] if primary else []
        if others:
            files.append(f"{zone['key']}-transfer")
        found.append(
            {
                "name": name,
                "primary": primary,
                "source": source,
                "servers": zone["servers"],
                "others": others,
                "key": key,
                "transfer_key": f"transfer.{key}",
                "transfer_file": f"{zone['key']}-transfer",
                "files": files,
                "grants": list(dict.fromkeys(grants)),
                "records": records,
            }
        )
    return found


class FilterModule:
    """The filters of this file."""

    def filters(self):
        return {"dns_zones": dns_zones}
