"""A clock that somebody sets."""

from __future__ import annotations


class SetClock:
    """`time` only grows, by sleeping; what the clock shows of it is `set_by` seconds beside it."""

    def __init__(self, time: float = 1_790_000_000.0, set_by: float = 0.0) -> None:
        self.time, self.set_by = time, set_by

    def now(self) -> float:
        return self.time + self.set_by

    def steady(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds
