# SPDX-License-Identifier: Apache-2.0
"""Reads durations as the plan writes them."""

from __future__ import annotations

DOCUMENTATION = r"""
name: seconds
short_description: Seconds of a duration
version_added: 0.1.0
author:
  - The VCRecovery authors (@vcrecovery)
description:
  - Turns a duration as the plan writes it, such as V(90), V(1.5s), V(200ms), V(5m), V(2h) or V(1d), into seconds.
positional: _input
options:
  _input:
    description: The duration.
    type: raw
    required: true
"""

EXAMPLES = r"""
- name: Half an hour
  ansible.builtin.debug:
    msg: "{{ '30m' | vcrecovery.standby.seconds }}"
"""

RETURN = r"""
_value:
  description: Seconds.
  type: float
"""

import re

from ansible.errors import AnsibleFilterError

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}


def seconds(value):
    """The plan's own rule, which `vcrecovery plan check` enforces; here only so that units can be rendered."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)\s*", str(value))
    if match is None:
        raise AnsibleFilterError(f"{value!r} is no duration; write 90s, 5m, 2h or 200ms")
    number = round(float(match[1]) * _UNITS[match[2]], 3)
    return int(number) if number == int(number) else number


class FilterModule:
    """The filters of this file."""

    def filters(self):
        return {"seconds": seconds}
