# SPDX-License-Identifier: Apache-2.0
"""Sends the rules for generated files along: by itself, Ansible sends only code."""

from __future__ import annotations

import os

from ansible.plugins.action import ActionBase
from ansible_collections.vcrecovery.standby.plugins.module_utils import excludes


class ActionModule(ActionBase):
    """Runs the module with the contents of the package's data files."""

    def run(self, tmp=None, task_vars=None):
        arguments = dict(self._task.args)
        folder = os.path.join(os.path.dirname(excludes.__file__), "data")
        arguments["rules"] = {}
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                arguments["rules"][name] = file.read()
        return self._execute_module(module_args=arguments, task_vars=task_vars)
