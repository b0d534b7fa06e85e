"""Waiting for a condition, with a bound: for a slow machine that is busy. What goes well does not reach it."""

from __future__ import annotations

from collections.abc import Callable

from vcrecovery_lab.pair.waiting import wait_until
from vcrecovery_lab.run import LabError


def wait_for(condition: Callable[[], object], what: str, timeout: float = 120.0, poll: float = 0.05) -> None:
    """AssertionError after `timeout` seconds. `poll`: seconds between two looks, less for what is there for less."""
    try:
        wait_until(condition, what, timeout, poll)
    except LabError as error:
        raise AssertionError(str(error)) from None
