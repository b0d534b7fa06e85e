"""Waiting for a condition, with a bound that a machine which stands still does not use up."""

from __future__ import annotations

import time
from collections.abc import Callable

from vcrecovery_lab.run import LabError

Clock = Callable[[], float]
Sleep = Callable[[float], None]


class Deadline:
    """So many seconds from now, of a machine that goes on.

    What a pause takes longer than it was asked for is a stall of the machine (no CPU for this process, or none for its
    VM), and so far nobody else had any time either: it is not counted.
    """

    def __init__(self, seconds: float, clock: Clock = time.monotonic, sleep: Sleep = time.sleep) -> None:
        self._at, self._clock, self._sleep = clock() + seconds, clock, sleep
        self.stalled = 0.0

    @property
    def is_over(self) -> bool:
        return self._clock() > self._at

    def pause(self, seconds: float) -> None:
        begun = self._clock()
        self._sleep(seconds)
        stall = max(0.0, self._clock() - begun - seconds)
        self._at += stall
        self.stalled += stall


def wait_until(
    condition: Callable[[], object],
    what: str,
    timeout: float,
    poll: float = 0.05,
    clock: Clock = time.monotonic,
    sleep: Sleep = time.sleep,
) -> None:
    """LabError after `timeout` seconds. Between two questions is as much time as the first one took, or `poll`."""
    deadline = Deadline(timeout, clock, sleep)
    while True:
        asked_at = clock()
        if condition():
            return
        if deadline.is_over:
            stood = f", and {deadline.stalled:.0f} s in which the machine stood still" if deadline.stalled >= 1 else ""
            raise LabError(f"{what} has not come within {timeout:.0f} s{stood}")
        deadline.pause(max(poll, clock() - asked_at))
