"""Waiting for a condition, with a bound."""

from __future__ import annotations

import time
from collections.abc import Callable

from vcrecovery_lab.run import LabError


def wait_until(condition: Callable[[], object], what: str, timeout: float, poll: float = 0.05) -> None:
    """LabError after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise LabError(f"{what} has not come within {timeout:.0f} s")
        time.sleep(poll)
