#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0 OR GPL-3.0-or-later
# Apache License 2.0 (see LICENSE) or, as modules of Ansible have to be, at your choice
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
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
  keep:
    description: Names or patterns of packages that stay in although O(packages) or O(profile) name them.
    type: list
    elements: str
    default: []
  profile:
    description: A set of packages by name, such as V(vm-to-container), of which none need be installed.
    type: str
  paths:
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
  lists:
    description: The files to write, by the program that reads them, V(rsync) or V(lsyncd).
    type: dict
    required: true
  rules:
    description: The rules for files that no package owns, as JSON texts by name. The collection fills them in.
    type: dict
attributes:
  check_mode:
    description: Can run in check mode.
    support: full
"""

EXAMPLES = r"""
- name: Leave out what a container never needs
  vcrecovery.standby.exclude_list:
    profile: vm-to-container
    lists:
      lsyncd: /etc/vcrecovery/exclude.lsyncd
      rsync: /etc/vcrecovery/exclude.rsync
"""

RETURN = r"""
backend:
  description: The package database that was read, V(dpkg), V(rpm) or V(none).
  type: str
  returned: always
patterns:
  description: How many patterns each list has.
  type: dict
  returned: always
written:
  description: The lists that were not as they should be.
  type: list
  elements: str
  returned: always
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.vcrecovery.standby.plugins.module_utils.excludes.database import backend_of
from ansible_collections.vcrecovery.standby.plugins.module_utils.excludes.errors import ExcludeError
from ansible_collections.vcrecovery.standby.plugins.module_utils.excludes.list_file import would_change, write_if_changed
from ansible_collections.vcrecovery.standby.plugins.module_utils.excludes.rules import rules_from_json
from ansible_collections.vcrecovery.standby.plugins.module_utils.excludes.selection import selection_from
from ansible_collections.vcrecovery.standby.plugins.module_utils.excludes.service import service_rules

CHOICES = ("packages", "keep", "profile", "paths", "host_keys")


def main():
    module = AnsibleModule(
        argument_spec={
            "packages": {"type": "list", "elements": "str", "default": []},
            "keep": {"type": "list", "elements": "str", "default": []},
            "profile": {"type": "str"},
            "paths": {"type": "list", "elements": "str", "default": []},
            "host_keys": {"type": "str", "choices": ["own", "copied"], "default": "copied"},
            "root": {"type": "path", "default": "/"},
            "lists": {"type": "dict", "required": True},
            "rules": {"type": "dict"},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    try:
        data = rules_from_json(*wanted["rules"].values()) if wanted["rules"] else None
        selection = selection_from({name: wanted[name] for name in CHOICES}, "exclude_list")
        backend = backend_of(os.fsencode(wanted["root"]))
        lists = service_rules(wanted["root"], selection, sorted(wanted["lists"]), data)
        writes = would_change if module.check_mode else write_if_changed
        written = [wanted["lists"][dialect] for dialect in sorted(lists) if writes(wanted["lists"][dialect], lists[dialect])]
    except ExcludeError as error:
        module.fail_json(msg=str(error))
    patterns = {dialect: data.count(b"\n") for dialect, data in lists.items()}
    module.exit_json(changed=bool(written), backend=backend, patterns=patterns, written=written)


if __name__ == "__main__":
    main()
