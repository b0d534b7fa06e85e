# SPDX-License-Identifier: Apache-2.0
"""A section of the plan with its defaults, as the program reads it."""

from __future__ import annotations

DOCUMENTATION = r"""
name: with_defaults
short_description: A section of the plan with its defaults
version_added: 0.2.0
author:
  - The VCRecovery authors (@vcrecovery)
description:
  - Adds what a section of the plan leaves out, at every depth, from the plan's own schema.
  - Checks nothing; C(vcrecovery plan check) does.
positional: _input, section
options:
  _input:
    description: The section, as the plan has it.
    type: raw
    required: true
  section:
    description: What the schema calls it, such as V(Sync) or V(Detection); V(Service.dns) is a key of a section.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show how often a heartbeat is made
  ansible.builtin.debug:
    msg: "{{ (vcrecovery_plan.services.web.sync | default({}) | vcrecovery.standby.with_defaults('Sync')).heartbeat }}"
"""

RETURN = r"""
_value:
  description: The section. Durations that the plan leaves out are seconds, others as the plan writes them.
  type: raw
"""

from ansible_collections.vcrecovery.standby.plugins.plugin_utils.plan_schema import with_defaults


class FilterModule:
    """The filters of this file."""

    def filters(self):
        return {"with_defaults": with_defaults}
