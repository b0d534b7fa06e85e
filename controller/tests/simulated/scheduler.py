"""Virtual time, and the order in which tasks run: one at a time, each up to where it waits.

Without a seed whoever is ready first runs first, and nothing takes longer than it says. With one, the next of those
that are ready is drawn, and so is how long each question to the outside takes: the same seed gives the same run again
(as FoundationDB's and TigerBeetle's simulators do).
"""

from __future__ import annotations

import heapq
import itertools
import math
import queue
from collections import deque
from collections.abc import Callable
from concurrent.futures import InvalidStateError
from contextlib import AbstractContextManager
from random import Random
from types import TracebackType
from typing import Any

from greenlet import getcurrent, greenlet

from vcrecovery.errors import ExternalError

#: What the clocks show at the beginning: 2026-11-21 12:30:00 UTC.
START = 1_795_264_200.0


class KilledError(BaseException):
    """The process has ended, as by SIGKILL."""


class Process:
    """What a kill ends at once, and a stop holds where it is."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.stopped = False
        #: Whether it fails over services that may need each other.
        self.knows_needs = True
        self.tasks: set[SimulatedTask] = set()

    @property
    def is_over(self) -> bool:
        return not self.tasks


class SimulatedTask:
    """One greenlet. `turn` counts its waits, so that what woke it once does not wake it twice."""

    def __init__(self, scheduler: Scheduler, process: Process, name: str, work: Callable[[], object]) -> None:
        self._scheduler = scheduler
        self.process = process
        self.name = name
        self.turn = 0
        self.ended = False
        self._waiting: list[Callable[[], None]] = []

        def body() -> None:
            try:
                work()
            except KilledError:
                pass
            except BaseException as error:  # noqa: BLE001  raised where the test waits
                scheduler.broken = scheduler.broken or error
            finally:
                self.end()

        self.greenlet = greenlet(body, scheduler.hub)

    def end(self) -> None:
        self.ended = True
        self.process.tasks.discard(self)
        for wake in self._waiting:
            wake()

    def is_alive(self) -> bool:
        return not self.ended

    def join(self) -> None:
        if not self.ended:
            self._scheduler.wait(self._waiting.append)


class Scheduler:
    """All processes of one simulation, and the time."""

    def __init__(self, seed: int | None = None) -> None:
        self.random = None if seed is None else Random(seed)  # noqa: S311  an order of events
        self.hub = getcurrent()
        self.time = 0.0
        self.set_by = 0.0
        #: How often a task has gone on.
        self.steps = 0
        #: A violated promise, or what went wrong in a task; raised where the test waits.
        self.broken: BaseException | None = None
        self.current: SimulatedTask | None = None
        self._ready: deque[SimulatedTask] = deque()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._killed: list[Process] = []
        #: The part of the answers that is lost, where a seed draws them.
        self.loses = 0.0
        #: After so many turns of a process it is killed.
        self.kill_in: tuple[Process, int] | None = None

    @property
    def wall(self) -> float:
        """What the clocks show."""
        return START + self.time + self.set_by

    # -- for tasks ---------------------------------------------------------------------------------------------

    def spawn(self, process: Process, work: Callable[[], object], name: str) -> SimulatedTask:
        self.check()
        task = SimulatedTask(self, process, name, work)
        process.tasks.add(task)
        self._ready.append(task)
        return task

    def sleep(self, seconds: float) -> None:
        if self.current is None:
            self.run(seconds)
        else:
            self.wait(lambda _wake: None, seconds)

    def wait(self, register: Callable[[Callable[[], None]], None], timeout: float | None = None) -> None:
        """Until what `register` was given is called, or `timeout` seconds are over."""
        task = self.current
        assert task is not None, "the test itself would wait for ever"
        self.check()
        task.turn += 1
        turn = task.turn

        def wake() -> None:
            if not task.ended and task.turn == turn:
                task.turn += 1
                self._ready.append(task)

        register(wake)
        if timeout is not None:
            self.at(self.time + max(0.0, timeout), wake)
        self.hub.switch()
        self.check()

    def check(self) -> None:
        """A process that was killed does nothing any more."""
        if self.current is not None and not self.current.process.alive:
            raise KilledError

    def step_aside(self) -> None:
        """A place where another task may go first, if the seed says so."""
        if self.random is not None and self.current is not None and self.random.random() < 0.5:
            self.sleep(0.0)

    def may_be_lost(self) -> None:
        """What was asked for is done, and nobody hears that it is. Raises ExternalError."""
        if self.loses and self.random is not None and self.random.random() < self.loses:
            raise ExternalError("its answer was lost", "run it again")

    def takes(self, seconds: float) -> None:
        """Something outside that usually takes so long."""
        if self.random is not None:
            seconds = self.random.choice((0.0, 0.001, seconds, seconds, 3 * seconds))
        self.sleep(seconds)

    # -- for the test ------------------------------------------------------------------------------------------

    def at(self, time: float, act: Callable[[], None]) -> None:
        """`act` happens at that time, between two tasks."""
        heapq.heappush(self._timers, (time, next(self._count), act))

    def kill(self, process: Process) -> None:
        """All its tasks end where they are. Nothing of what they would clean up is done outside."""
        process.alive = False
        self._killed.append(process)
        if self.current is None:
            self._end_the_killed()
        elif self.current.process is process:
            raise KilledError

    def _end_the_killed(self) -> None:
        while self._killed:
            for task in list(self._killed.pop().tasks):
                task.turn += 1
                if task in self._ready:
                    self._ready.remove(task)
                if not task.greenlet:
                    task.end()  # it never began
                    continue
                self.current = task
                task.greenlet.throw(KilledError)
                self.current = None

    def run(self, seconds: float = math.inf, until: Callable[[], bool] = lambda: False) -> None:
        """Lets so much time pass, or less: until the condition holds, or nothing would ever happen again."""
        assert self.current is None, "only the test lets time pass"
        end = self.time + seconds
        while not until():
            task = self._next()
            if task is None:
                if not self._timers or self._timers[0][0] > end:
                    if end < math.inf:
                        self.time = end
                    break
                time, _, act = heapq.heappop(self._timers)
                self.time = max(self.time, time)
                act()
            else:
                self.steps += 1
                self.current = task
                task.greenlet.switch()
                self.current = None
                self._count_down(task.process)
            self._end_the_killed()
            if self.broken is not None:
                raise self.broken

    def _count_down(self, process: Process) -> None:
        if self.kill_in is None or self.kill_in[0] is not process:
            return
        left = self.kill_in[1] - 1
        self.kill_in = (process, left) if left > 0 else None
        if left <= 0 and process.alive:
            self.kill(process)

    def _next(self) -> SimulatedTask | None:
        ready = [task for task in self._ready if not task.process.stopped]
        if not ready:
            return None
        task = ready[0] if self.random is None else self.random.choice(ready)
        self._ready.remove(task)
        return task


class SimulatedEvent:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._set = False
        self._waiting: list[Callable[[], None]] = []

    def set(self) -> None:
        self._set = True
        waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()

    def clear(self) -> None:
        self._set = False

    def is_set(self) -> bool:
        return self._set

    def wait(self, timeout: float | None = None) -> bool:
        if not self._set:
            self._scheduler.wait(self._waiting.append, timeout)
        return self._set


class SimulatedLock(AbstractContextManager[None]):
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._held = False
        self._waiting: list[Callable[[], None]] = []

    def __enter__(self) -> None:
        while self._held:
            self._scheduler.wait(self._waiting.append)
        self._held = True

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._held = False
        waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()


class SimulatedInbox:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._items: deque[Any] = deque()
        self._waiting: list[Callable[[], None]] = []

    def put(self, item: Any) -> None:
        self._items.append(item)
        waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()

    def get(self, *, timeout: float) -> Any:
        if timeout < 0:
            raise ValueError("'timeout' must be a non-negative number")
        end = self._scheduler.time + timeout
        while not self._items:
            if self._scheduler.time >= end:
                raise queue.Empty
            self._scheduler.wait(self._waiting.append, end - self._scheduler.time)
        return self._items.popleft()

    def get_nowait(self) -> Any:
        if not self._items:
            raise queue.Empty
        return self._items.popleft()


class SimulatedAnswer:
    """What is used of `concurrent.futures.Future`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._came = SimulatedEvent(scheduler)
        self._result: Any = None
        self._error: BaseException | None = None

    def set_result(self, result: Any) -> None:
        self._give_once()
        self._result = result
        self._came.set()

    def set_exception(self, error: BaseException) -> None:
        self._give_once()
        self._error = error
        self._came.set()

    def _give_once(self) -> None:
        if self.done():
            raise InvalidStateError("invalid state: it has been given")

    def done(self) -> bool:
        return self._came.is_set()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        if not self._came.wait(timeout):
            raise TimeoutError
        return self._error

    def result(self, timeout: float | None = None) -> Any:
        if (error := self.exception(timeout)) is not None:
            raise error
        return self._result


class SimulatedRuntime:
    """The clock and the runtime (`drivers.clock`, `drivers.runtime`) of one process."""

    def __init__(self, scheduler: Scheduler, process: Process) -> None:
        self.scheduler = scheduler
        self.process = process

    def now(self) -> float:
        return self.scheduler.wall

    def steady(self) -> float:
        return self.scheduler.time

    def sleep(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        self.scheduler.sleep(seconds)

    def spawn(self, work: Callable[[], object], name: str) -> SimulatedTask:
        return self.scheduler.spawn(self.process, work, name)

    def event(self) -> SimulatedEvent:
        return SimulatedEvent(self.scheduler)

    def lock(self) -> SimulatedLock:
        return SimulatedLock(self.scheduler)

    def inbox(self) -> SimulatedInbox:
        return SimulatedInbox(self.scheduler)

    def answer(self) -> Any:
        return SimulatedAnswer(self.scheduler)

    def draw(self, low: float, high: float) -> float:
        random = self.scheduler.random
        return (low + high) / 2 if random is None else random.uniform(low, high)
