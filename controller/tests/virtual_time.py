"""Time that passes only when somebody waits; of several threads one runs at a time, in a fixed order."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager


class KilledError(BaseException):
    """The controller is killed: nothing of it runs any more, not even its handlers."""


#: Whoever made the clock.
MAIN = "main"


class VirtualClock:
    """Changes of the world happen on the way.

    `time` only grows; what a clock shows of it is `set_by` seconds beside it.
    """

    def __init__(self) -> None:
        self.time = 0.0
        self.set_by = 0.0
        self.changes: list[tuple[float, Callable[[], None]]] = []
        #: What went wrong in a thread; it is raised where the test waits.
        self.broken: BaseException | None = None
        self._baton = threading.Condition()
        self._turn = MAIN
        #: Who waits until when; of two with the same time, whoever waits for longer comes first.
        self._waiting: dict[str, float] = {}
        self._until: dict[str, Callable[[], bool]] = {}
        self._process: dict[str, str] = {}
        self._killed: set[str] = set()

    def now(self) -> float:
        return self.time + self.set_by

    def steady(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        end = self.time + seconds
        if self._waiting:
            self._wait(end)
            return
        while self.changes and min(at for at, _ in self.changes) <= end:
            self._next_change()
        self.time = max(self.time, end)

    def wait_for(self, condition: Callable[[], bool], seconds: float) -> None:
        """Sleeps until `condition` holds, and not for longer than that."""
        if not condition():
            if self._waiting:
                self._until[self._turn] = condition
            self.sleep(seconds)

    def _next_change(self) -> None:
        at, change = min(self.changes, key=lambda entry: entry[0])
        self.changes.remove((at, change))
        self.time = max(self.time, at)
        change()

    # -- many threads ------------------------------------------------------------------------------------------

    def spawn(self, name: str, work: Callable[[], None], process: str) -> None:
        """Begins `work` in a thread of its own, at this time."""
        self._expect(name, process)

        def body() -> None:
            with self.turn_of(name):
                work()

        threading.Thread(target=body, daemon=True).start()

    def is_at_work(self, name: str) -> bool:
        return name in self._process

    @property
    def threads(self) -> int:
        return len(self._process)

    @contextmanager
    def standing_aside(self, names: Sequence[str], process: str) -> Iterator[None]:
        """While threads of somebody else's making, which use `turn_of`, do the work of whoever calls."""
        me = self._turn
        with self._baton:
            for name in names:
                self._expect(name, process)
            self._until[me] = lambda: not any(name in self._process for name in names)
            self._waiting[me] = math.inf
            self._hand_on()
        yield
        with self._baton:
            self._baton.wait_for(lambda: self._turn == me)

    def _expect(self, name: str, process: str) -> None:
        assert name not in self._process, name
        self._process[name] = process
        self._waiting[name] = self.time

    @contextmanager
    def turn_of(self, name: str) -> Iterator[None]:
        """In a thread: from its first turn to its end. What it raises is raised where the test waits."""
        with self._baton:
            self._baton.wait_for(lambda: self._turn == name)
        try:
            yield
        except KilledError:
            pass
        except BaseException as error:  # noqa: BLE001  a violated promise must not stay in a thread
            self.broken = self.broken or error
        finally:
            with self._baton:
                del self._process[name]
                self._hand_on()

    def kill(self) -> None:
        """Ends whoever calls, and all the threads of its process, each as soon as it would go on."""
        process = self._process.get(self._turn)
        if process is not None:
            self._killed.add(process)
            for name in self._waiting:
                if self._process.get(name) == process:
                    self._waiting[name] = -math.inf

    def _wait(self, end: float) -> None:
        me = self._turn
        with self._baton:
            self._waiting[me] = end
            self._hand_on()
            self._baton.wait_for(lambda: self._turn == me)
        if me == MAIN and self.broken is not None:
            raise self.broken
        if self._process.get(me) in self._killed:
            raise KilledError

    def _hand_on(self) -> None:
        """Lets time pass up to the next one's turn."""
        while True:
            for name, condition in self._until.items():
                if condition():
                    self._waiting[name] = min(self._waiting[name], self.time)
            who = min(self._waiting, key=lambda name: self._waiting[name])
            at = self._waiting[who]
            if self.changes and min(entry[0] for entry in self.changes) <= at:
                self._next_change()
                continue
            assert at < math.inf, "everybody waits for somebody else"
            self.time = max(self.time, at)
            del self._waiting[who]
            self._until.pop(who, None)
            self._turn = who
            self._baton.notify_all()
            return
