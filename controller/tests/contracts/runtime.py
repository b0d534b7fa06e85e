"""The clock and the runtime: tasks, events, locks, inboxes, answers."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from typing import Protocol

import pytest

from contracts.cases import Cases, Waits
from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.runtime import Event, Runtime, ask, each, results

#: Seconds: one that is over soon, and one that no case waits for.
SHORT, LONG = 0.05, 300.0


class Process(Waits, Protocol):
    """A case runs in a task of its own here."""

    @property
    def runtime(self) -> Runtime: ...

    @property
    def clock(self) -> Clock: ...

    def broken(self) -> Sequence[BaseException]:
        """What tasks have raised so far, and nobody caught."""


case = Cases[Process]()


def spawned(on: Process, event: Event) -> None:
    """Sets it from another task, a little later."""

    def work() -> None:
        on.clock.sleep(SHORT)
        event.set()

    on.runtime.spawn(work, "sets")


@case
def the_clock_goes_on(on: Process) -> None:
    now, steady = on.clock.now(), on.clock.steady()
    on.clock.sleep(SHORT)
    assert on.clock.steady() - steady >= 0.9 * SHORT
    assert on.clock.now() - now > SHORT / 2


@case
def nobody_sleeps_into_the_past(on: Process) -> None:
    on.clock.sleep(0.0)
    with pytest.raises(ValueError, match="must be non-negative"):
        on.clock.sleep(-SHORT)


@case
def a_task_that_is_begun_runs_and_ends(on: Process) -> None:
    go, done = on.runtime.event(), []

    def work() -> None:
        go.wait()
        done.append(1)

    task = on.runtime.spawn(work, "work")
    assert task.is_alive()
    assert done == []
    go.set()
    task.join()
    assert not task.is_alive()
    assert done == [1]
    task.join()


@case
def a_task_that_raises_ends_alone(on: Process) -> None:
    def work() -> None:
        raise LookupError("of a contract")

    on.runtime.spawn(work, "raises").join()
    on.eventually(on.broken, "the report of the error")
    (error,) = on.broken()
    assert isinstance(error, LookupError)
    done = on.runtime.event()
    on.runtime.spawn(done.set, "the next")
    assert done.wait(LONG)


@case
def an_event_that_is_set_keeps_nobody_waiting(on: Process) -> None:
    event, began = on.runtime.event(), on.clock.steady()
    event.set()
    event.set()
    assert event.is_set()
    assert event.wait(LONG)
    assert event.wait()
    assert on.clock.steady() - began < LONG


@case
def an_event_that_does_not_come_is_waited_for_in_vain(on: Process) -> None:
    event, began = on.runtime.event(), on.clock.steady()
    assert not event.wait(SHORT)
    assert on.clock.steady() - began >= 0.9 * SHORT
    assert not event.wait(0.0)
    assert not event.wait(-LONG)
    assert not event.is_set()


@case
def an_event_ends_a_wait(on: Process) -> None:
    """So does a stop end the pause of whoever looks again and again."""
    stop, began = on.runtime.event(), on.clock.steady()
    spawned(on, stop)
    assert stop.wait(LONG)
    assert on.clock.steady() - began < LONG
    stop.clear()
    assert not stop.is_set()
    assert not stop.wait(SHORT)
    spawned(on, stop)
    assert stop.wait()


@case
def an_event_wakes_all_that_wait(on: Process) -> None:
    stop, woken = on.runtime.event(), []
    tasks = [on.runtime.spawn(lambda n=n: woken.append((n, stop.wait(LONG))), "waits") for n in range(5)]  # type: ignore[misc]
    spawned(on, stop)
    for task in tasks:
        task.join()
    assert sorted(woken) == [(n, True) for n in range(5)]


@case
def an_inbox_keeps_the_order(on: Process) -> None:
    inbox = on.runtime.inbox()
    for number in range(5):
        inbox.put(number)
    assert [inbox.get(timeout=LONG), inbox.get_nowait()] == [0, 1]
    inbox.put(5)
    assert [inbox.get_nowait() for _ in range(4)] == [2, 3, 4, 5]


@case
def an_empty_inbox_says_so_in_time(on: Process) -> None:
    inbox, began = on.runtime.inbox(), on.clock.steady()
    with pytest.raises(queue.Empty):
        inbox.get_nowait()
    with pytest.raises(queue.Empty):
        inbox.get(timeout=0.0)
    with pytest.raises(queue.Empty):
        inbox.get(timeout=SHORT)
    assert 0.9 * SHORT <= on.clock.steady() - began < LONG
    with pytest.raises(ValueError, match="non-negative"):
        inbox.get(timeout=-SHORT)


@case
def what_is_put_into_an_inbox_wakes_who_waits(on: Process) -> None:
    inbox, began = on.runtime.inbox(), on.clock.steady()

    def work() -> None:
        on.clock.sleep(SHORT)
        inbox.put(None)
        inbox.put("two")

    on.runtime.spawn(work, "puts")
    assert inbox.get(timeout=LONG) is None
    assert inbox.get(timeout=LONG) == "two"
    assert on.clock.steady() - began < LONG


@case
def every_item_goes_to_one_reader(on: Process) -> None:
    inbox, read = on.runtime.inbox(), []

    def work() -> None:
        while (item := inbox.get(timeout=LONG)) is not None:
            read.append(item)

    tasks = [on.runtime.spawn(work, "reads") for _ in range(3)]
    for number in range(20):
        inbox.put(number)
    for _ in tasks:
        inbox.put(None)
    for task in tasks:
        task.join()
    assert sorted(read) == list(range(20))


@case
def a_lock_lets_one_in(on: Process) -> None:
    lock, inside, most = on.runtime.lock(), [], []

    def work() -> None:
        with lock:
            inside.append(1)
            on.clock.sleep(0.001)
            most.append(len(inside))
            inside.pop()

    each(on.runtime, lambda _n: work(), range(5), "enters")
    assert most == [1] * 5


@case
def a_lock_opens_when_its_holder_fails(on: Process) -> None:
    lock = on.runtime.lock()
    with pytest.raises(LookupError), lock:
        raise LookupError
    with lock:
        pass


@case
def an_answer_comes_from_somebody_else(on: Process) -> None:
    answer = ask(on.runtime, lambda: "yes", "asks")
    assert answer.result(LONG) == "yes"
    assert answer.result() == "yes"
    assert answer.exception(LONG) is None
    assert answer.done()


@case
def an_answer_that_does_not_come_times_out(on: Process) -> None:
    go, began = on.runtime.event(), on.clock.steady()
    answer = ask(on.runtime, lambda: go.wait(LONG), "asks")
    for seconds in (SHORT, 0.0, -LONG):
        with pytest.raises(TimeoutError):
            answer.result(seconds)
    with pytest.raises(TimeoutError):
        answer.exception(SHORT)
    assert not answer.done()
    go.set()
    assert answer.result(LONG) is True
    assert on.clock.steady() - began < LONG


@case
def an_answer_may_be_an_error(on: Process) -> None:
    def question() -> None:
        raise LookupError("of a contract")

    answer = ask(on.runtime, question, "asks")
    for _ in range(2):
        with pytest.raises(LookupError, match="of a contract"):
            answer.result(LONG)
    assert isinstance(answer.exception(LONG), LookupError)
    assert answer.done()


@case
def an_answer_is_given_once(on: Process) -> None:
    answer = on.runtime.answer()
    answer.set_result(1)
    with pytest.raises(Exception, match=r"(?i)invalid state|finished"):
        answer.set_result(2)
    assert answer.result(LONG) == 1


@case
def many_work_at_the_same_time(on: Process) -> None:
    """Each waits for the next: one after the other, they would never end."""
    events = [on.runtime.event() for _ in range(4)]

    def work(number: int) -> int:
        events[number].set()
        assert events[(number + 1) % 4].wait(LONG)
        return number * number

    assert results(on.runtime, work, range(4), "squares") == [0, 1, 4, 9]


@case
def the_first_error_of_many_is_raised_when_all_have_ended(on: Process) -> None:
    done = []

    def work(number: int) -> None:
        on.clock.sleep(SHORT if number == 0 else 0.0)
        done.append(number)
        if number < 2:
            raise LookupError(str(number))

    with pytest.raises(LookupError, match=r"^0$"):
        each(on.runtime, work, range(4), "fails", at_once=2)
    assert sorted(done) == [0, 1, 2, 3]
