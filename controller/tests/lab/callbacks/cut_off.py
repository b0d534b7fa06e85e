"""Kills ansible-playbook after so many changes (CUT_OFF_AFTER), as a power failure would."""

from __future__ import annotations

import os
import signal

from ansible.plugins.callback import CallbackBase  # type: ignore[import-untyped]

DOCUMENTATION = r"""
name: cut_off
type: aggregate
short_description: Kills the run after so many changes
description: For tests. The number is that of the environment's CUT_OFF_AFTER.
"""


class CallbackModule(CallbackBase):  # type: ignore[misc]  # ansible has no types
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "cut_off"

    def __init__(self) -> None:
        super().__init__()
        self._left = int(os.environ["CUT_OFF_AFTER"])

    def _count(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def v2_runner_on_ok(self, result: object) -> None:
        # A loop's changes are counted one by one.
        if result.is_changed() and not result._task.loop:  # type: ignore[attr-defined]
            self._count()

    def v2_runner_item_on_ok(self, result: object) -> None:
        if result.is_changed():  # type: ignore[attr-defined]
            self._count()
