"""Asks many things outside at once. What does not answer in time is given up, and holds nothing else up.

Every host and server has a lane of its own, with a few threads: one that hangs fills its own lane only. The threads are
daemons, since a program that has given an answer up must not wait for it when it ends.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Generic, TypeVar, cast

from vcrecovery.drivers.runtime import THREADS, Runtime
from vcrecovery.errors import ExternalError

#: So many questions are asked of one host or server at the same time.
PER_LANE = 4
#: Seconds. Whoever fails only after that speaks for the questions that wait behind: each would take as long.
SLOW = 1.0
T = TypeVar("T")


class Pending(Generic[T]):
    """A question that was asked."""

    def __init__(self, function: Callable[[], T], runtime: Runtime) -> None:
        self._function = function
        self._value: T | None = None
        self._error: Exception | None = None
        self._ended = runtime.event()

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    def work(self) -> Exception | None:
        try:
            self._value = self._function()
        except Exception as error:  # noqa: BLE001  it is raised again in the asker's thread
            self._error = error
        self._ended.set()
        return self._error

    def fail(self, error: Exception) -> None:
        self._error = error
        self._ended.set()

    def answer(self, seconds: float) -> T:
        """Waits for at most so long. Raises what the question raised, and ExternalError when there is no answer yet."""
        if not self._ended.wait(max(0.0, seconds)):
            raise ExternalError("no answer in time")
        if self._error is not None:
            raise self._error
        return cast("T", self._value)


class QueryPool:
    """Keeps the lanes. A question that still has no answer is not asked a second time."""

    def __init__(
        self, per_lane: int = PER_LANE, runtime: Runtime = THREADS, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_lane, self._runtime, self._steady = per_lane, runtime, steady
        self._guard = runtime.lock()
        self._lanes: dict[Hashable, deque[Pending[Any]]] = {}
        self._threads: dict[Hashable, int] = {}
        self._pending: dict[Hashable, Pending[Any]] = {}

    def ask(self, lane: Hashable, key: Hashable, function: Callable[[], T]) -> Pending[T]:
        with self._guard:
            before = self._pending.get((lane, key))
            if before is not None and not before.ended:
                return before
            question = Pending(function, self._runtime)
            self._pending[(lane, key)] = question
            self._lanes.setdefault(lane, deque()).append(question)
            if self._threads.get(lane, 0) < self._per_lane:
                self._threads[lane] = self._threads.get(lane, 0) + 1
                self._runtime.spawn(partial(self._work, lane), f"ask {lane}")
        return question

    def _work(self, lane: Hashable) -> None:
        while True:
            with self._guard:
                if not self._lanes[lane]:
                    self._threads[lane] -= 1
                    return
                question = self._lanes[lane].popleft()
            begun = self._steady()
            error = question.work()
            if isinstance(error, ExternalError) and self._steady() - begun > SLOW:
                with self._guard:
                    behind = list(self._lanes[lane])
                    self._lanes[lane].clear()
                for waiting in behind:
                    waiting.fail(error)
