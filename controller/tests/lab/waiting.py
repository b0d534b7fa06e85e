"""Waiting for a condition, with a bound: for a slow machine that is busy. What goes well does not reach it."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_for(condition: Callable[[], object], what: str, timeout: float = 120.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"{what} has not come within {timeout:.0f} s"
        time.sleep(0.05)
