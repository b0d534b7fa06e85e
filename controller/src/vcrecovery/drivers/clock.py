"""Time, passed in so that tests can bring their own."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds since the epoch, and waiting.

    `steady` counts seconds from any moment and is never set: what waits for a time uses it, so that an hour more or
    less on the other one neither ends nor prolongs anything.
    """

    def now(self) -> float: ...

    def steady(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.time()

    def steady(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
