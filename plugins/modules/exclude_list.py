#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Writes the list of what a primary does not send."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: exclude_list
short_description: Writes the list of paths that are not synced to a standby
version_added: 0.1.0
author:
  - The VCRecovery authors (@vcrecovery)
description:
  - Computes, from the package database, the shortest list of paths that leaves out what the named packages own.
  - Adds what is never synced, such as a machine's identity and the units that must not run in a container.
options:
  packages:
    description: Names or patterns of packages whose files stay out. A pattern that matches nothing is an error.
    type: list
    elements: str
    default: []
  exclude:
    description: Further absolute paths that stay out.
    type: list
    elements: str
    default: []
  host_keys:
    description: V(own) also leaves out the SSH host keys.
    type: str
    choices: [own, copied]
    default: copied
  root:
    description: Where the system is.
    type: path
    default: /
  dest:
    description: The file to write.
    type: path
    required: true
  format:
    description: Who reads the file.
    type: str
    choices: [rsync, lsyncd]
    default: lsyncd
  rules:
    description: The rules for files that no package owns, as JSON texts by name. The collection fills them in.
    type: dict
attributes:
  check_mode:
    description: Can run in check mode.
    support: full
"""

EXAMPLES = r"""
- name: Leave the kernel out
  vcrecovery.standby.exclude_list:
    packages: ["linux-*"]
    dest: /etc/vcrecovery/exclude.lsyncd
"""

RETURN = r"""
patterns:
  description: How many patterns the list has.
  type: int
  returned: always
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.vcrecovery.standby.plugins.module_utils.excludes.errors import ExcludeError
from ansible_collections.vcrecovery.standby.plugins.module_utils.excludes.files import would_change, write_if_changed
from ansible_collections.vcrecovery.standby.plugins.module_utils.excludes.rules import rules_from_json
from ansible_collections.vcrecovery.standby.plugins.module_utils.excludes.service import service_rules


def main():
    module = AnsibleModule(
        argument_spec={
            "packages": {"type": "list", "elements": "str", "default": []},
            "exclude": {"type": "list", "elements": "str", "default": []},
            "host_keys": {"type": "str", "choices": ["own", "copied"], "default": "copied"},
            "root": {"type": "path", "default": "/"},
            "dest": {"type": "path", "required": True},
            "rules": {"type": "dict"},
            "format": {"type": "str", "choices": ["rsync", "lsyncd"], "default": "lsyncd"},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    try:
        data = rules_from_json(*wanted["rules"].values()) if wanted["rules"] else None
        rules = service_rules(
            wanted["root"], wanted["packages"], wanted["exclude"], wanted["host_keys"], wanted["format"], data
        )
        writes = would_change if module.check_mode else write_if_changed
        changed = writes(wanted["dest"], rules)
    except ExcludeError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed, patterns=rules.count(b"\n"))


if __name__ == "__main__":
    main()
