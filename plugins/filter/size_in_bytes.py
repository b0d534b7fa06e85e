# SPDX-License-Identifier: Apache-2.0
"""Reads sizes as the plan writes them."""

from __future__ import annotations

DOCUMENTATION = r"""
name: size_in_bytes
short_description: Bytes of a size
version_added: 0.1.0
author:
  - The VCRecovery authors (@vcrecovery)
description:
  - Turns a size as the plan writes it, such as V(512MiB), V(40GiB) or V(1.5TB), into bytes. A number is bytes already.
positional: _input
options:
  _input:
    description: The size.
    type: raw
    required: true
"""

EXAMPLES = r"""
- name: Four times 2**30
  ansible.builtin.debug:
    msg: "{{ '4GiB' | vcrecovery.standby.size_in_bytes }}"
"""

RETURN = r"""
_value:
  description: Bytes.
  type: int
"""

import re

from ansible.errors import AnsibleFilterError

_UNITS = {"MB": 10**6, "GB": 10**9, "TB": 10**12, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def size_in_bytes(value):
    """The plan's own rule, which `vcrecovery plan check` enforces; here so that modules can be given numbers."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(MB|GB|TB|MiB|GiB|TiB)\s*", str(value))
    if match is None:
        raise AnsibleFilterError(f"{value!r} is no size; write 512MiB, 40GiB or 2TB")
    return round(float(match[1]) * _UNITS[match[2]])


class FilterModule:
    """The filters of this file."""

    def filters(self):
        return {"size_in_bytes": size_in_bytes}
