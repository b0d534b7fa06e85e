"""Whatever goes on at the same time, or waits, does so through here, so that tests can bring an order of their own.

The simulation's lets one task run at a time, in an order that a seed chooses and repeats; see `tests/simulation`.
"""

from __future__ import annotations

import queue
import random
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from vcrecovery.errors import ExternalError

_T = TypeVar("_T")


class Task(Protocol):
    """Something that was begun. It ends with the program, if not before."""

    def is_alive(self) -> bool: ...

    def join(self) -> None:
        """Waits for its end."""


class Event(Protocol):
    """A flag that can be waited for, as `threading.Event`. Times in seconds."""

    def set(self) -> None: ...

    def clear(self) -> None: ...

    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> bool: ...


class Inbox(Protocol[_T]):
    """What others put in comes out in the same order, as in a `queue.Queue`: `queue.Empty` when there is nothing."""

    def put(self, item: _T) -> None: ...

    def get(self, *, timeout: float) -> _T: ...

    def get_nowait(self) -> _T: ...


class Runtime(Protocol):
    """How things are done at the same time."""

    def spawn(self, work: Callable[[], object], name: str) -> Task:
        """Begins `work`. Raises RuntimeError where this machine can start no more threads for a moment."""

    def event(self) -> Event: ...

    def lock(self) -> AbstractContextManager[Any]: ...

    def inbox(self) -> Inbox[Any]: ...

    def answer(self) -> Future[Any]:
        """One that somebody else gives. Its `result` raises TimeoutError when it does not come in time."""

    def draw(self, low: float, high: float) -> float:
        """A number between the two, another one each time: what many do again and again must not fall together."""


class Threads:
    """The program's own."""

    def spawn(self, work: Callable[[], object], name: str) -> threading.Thread:
        # Daemons: an interruption ends the program, and the journal knows how far each was.
        thread = threading.Thread(target=work, name=name, daemon=True)
        thread.start()
        return thread

    def event(self) -> threading.Event:
        return threading.Event()

    def lock(self) -> AbstractContextManager[Any]:
        return threading.Lock()

    def inbox(self) -> Inbox[Any]:
        return queue.Queue()

    def answer(self) -> Future[Any]:
        return Future()

    def draw(self, low: float, high: float) -> float:
        return random.uniform(low, high)  # noqa: S311  no secret


THREADS = Threads()


def ask(runtime: Runtime, question: Callable[[], _T], name: str) -> Future[_T]:
    """The answer to `question`, which is put at once; whoever does not need it need not wait for it."""
    answer: Future[_T] = runtime.answer()

    def work() -> None:
        try:
            found = question()
        except Exception as error:  # noqa: BLE001  raised where the answer is asked for
            answer.set_exception(error)
        else:
            answer.set_result(found)

    try:
        runtime.spawn(work, name)
    except RuntimeError as error:
        answer.set_exception(ExternalError(f"this machine cannot start a thread: {error}", "free some of its memory"))
    return answer


def each(
    runtime: Runtime, work: Callable[[_T], object], items: Sequence[_T], name: str, at_once: int | None = None
) -> None:
    """`work` for each of the items at the same time, or for `at_once` of them; returns when all are done.

    Raises what the first of them raised, in their order, when all have ended.
    """
    if len(items) < 2:
        for item in items:
            work(item)
        return
    left = deque(enumerate(items))
    errors: dict[int, Exception] = {}

    def take() -> None:
        while True:
            try:
                number, item = left.popleft()
            except IndexError:
                return
            try:
                work(item)
            except Exception as error:  # noqa: BLE001  raised below
                errors[number] = error

    tasks = [runtime.spawn(take, name) for _ in range(min(at_once or len(items), len(items)))]
    for task in tasks:
        task.join()
    if errors:
        raise errors[min(errors)]


def results(
    runtime: Runtime, work: Callable[[_T], Any], items: Sequence[_T], name: str, at_once: int | None = None
) -> list[Any]:
    """What `work` gives for each of the items, in their order; see `each`."""
    found: dict[int, Any] = {}

    def keep(numbered: tuple[int, _T]) -> None:
        found[numbered[0]] = work(numbered[1])

    each(runtime, keep, list(enumerate(items)), name, at_once)
    return [found[number] for number in range(len(items))]
