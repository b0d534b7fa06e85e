#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0 OR GPL-3.0-or-later
# Apache License 2.0 (see LICENSE) or, as modules of Ansible have to be, at your choice
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
"""Writes several small files in one call."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: write_files
short_description: Writes several small files in one call
version_added: 0.1.0
author:
  - The VCRecovery authors (@vcrecovery)
description:
  - Does for a list of small files what C(ansible.builtin.copy) with O(files[].content) does for one.
  - A primary can be far away or slow. There each call of a module takes seconds, and a role has half a dozen files.
options:
  files:
    description: The files. Folders are made as needed.
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description: Where.
        type: path
        required: true
      content:
        description: What.
        type: str
        required: true
      mode:
        description: The file's mode.
        type: str
        default: "0644"
  folder_mode:
    description: The mode of folders that are made.
    type: str
    default: "0755"
attributes:
  check_mode:
    description: Can run in check mode.
    support: full
  diff_mode:
    description: Shows what changes.
    support: full
"""

EXAMPLES = r"""
- name: Write two files
  vcrecovery.standby.write_files:
    files:
      - {path: /etc/example/one, content: "1\n"}
      - {path: /etc/example/two, content: "2\n", mode: "0600"}
"""

RETURN = r"""
written:
  description: The files that were not as they should be.
  type: list
  elements: str
  returned: always
"""

import os
import stat
import tempfile

from ansible.module_utils.basic import AnsibleModule


def present(path):
    """Content and mode of a file; (None, None) when it is not there."""
    try:
        with open(path, "rb") as file:
            return file.read(), stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    except FileNotFoundError:
        return None, None


def write(module, path, content, mode):
    """Replaces the file at once."""
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=int(module.params["folder_mode"], 8), exist_ok=True)
    descriptor, scratch = tempfile.mkstemp(dir=folder)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    os.chmod(scratch, mode)
    module.atomic_move(scratch, path, unsafe_writes=False)
    os.chmod(path, mode)


def main():
    module = AnsibleModule(
        argument_spec={
            "files": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "path": {"type": "path", "required": True},
                    "content": {"type": "str", "required": True},
                    "mode": {"type": "str", "default": "0644"},
                },
            },
            "folder_mode": {"type": "str", "default": "0755"},
        },
        supports_check_mode=True,
    )
    written, differences = [], []
    for wanted in module.params["files"]:
        path, content, mode = wanted["path"], wanted["content"].encode(), int(wanted["mode"], 8)
        try:
            old, old_mode = present(path)
            if (old, old_mode) == (content, mode):
                continue
            if not module.check_mode:
                write(module, path, content, mode)
        except OSError as error:
            module.fail_json(msg=f"{path}: {error.strerror}", written=written)
        written.append(path)
        before = (old or b"").decode(errors="replace")
        differences.append({"before_header": path, "after_header": path, "before": before, "after": wanted["content"]})
    module.exit_json(changed=bool(written), written=written, diff=differences)


if __name__ == "__main__":
    main()
