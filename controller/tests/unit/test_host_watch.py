"""The watch of one hypervisor, turn by turn: what it tells, and how long it waits while libvirt is away."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from set_clock import SetClock

from vcrecovery.core.domain import DomainEvent, DomainReading, DomainUsage
from vcrecovery.core.power import Power
from vcrecovery.detect import host_watch
from vcrecovery.detect.host_watch import Began, Connected, Happened, Heard, HostWatch, Lost, Message, NotHeard
from vcrecovery.detect.rounds import Rounds
from vcrecovery.drivers.runtime import Threads
from vcrecovery.errors import ExternalError

WEB, OTHER = "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0001", "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0009"
AWAY = ExternalError("hypervisor hv1 does not answer", "see `systemctl status libvirtd` there")
RUNS = DomainReading(Power.RUNNING)
LOST = Lost("hv1", "connection to hypervisor hv1 lost")


class Runaway(BaseException):
    """Something goes round without a wait."""


class Flag:
    """Nobody waits for it: a wait that would end by its time ends at once, and is written down."""

    def __init__(self, waits: list[float], ends_after: int | None = None) -> None:
        self._waits, self._ends_after = waits, ends_after
        self._set = False
        self._looked = 0

    def set(self) -> None:
        self._set = True

    def clear(self) -> None:
        self._set = False

    def is_set(self) -> bool:
        self._looked += 1
        if self._looked > 1000:
            raise Runaway
        return self._set or (self._ends_after is not None and len(self._waits) >= self._ends_after)

    def wait(self, timeout: float | None = None) -> bool:
        if not self._set:
            assert timeout is not None
            self._waits.append(timeout)
            if len(self._waits) > 1000:
                raise Runaway
        return self._set


class Runtime(Threads):
    """Begins nothing: a test does, one after the other."""

    def __init__(self) -> None:
        self.tasks: dict[str, Callable[[], object]] = {}
        self.waits: list[float] = []

    def spawn(self, work: Callable[[], object], name: str) -> Any:
        self.tasks[name.removesuffix("-hv1")] = work

    def event(self) -> Any:
        return Flag(self.waits)


class Host:
    """Does at each call what is next in its list; the last one for good."""

    def __init__(self, clock: SetClock) -> None:
        self.clock = clock
        self.subscriptions: list[ExternalError | None] = [None]
        self.answers: list[ExternalError | None] = [None]
        self.is_alive: list[bool] = [False]
        self.reading: DomainReading | ExternalError = RUNS
        self.takes = 0.0
        self.ended = 0
        self.on_subscribed: Callable[[], None] = lambda: None

    @staticmethod
    def _next(left: list[Any]) -> Any:
        found = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(found, Exception):
            raise found
        return found

    def subscribe(self, on_event: Any, on_close: Any, on_begin: Any) -> Callable[[], None]:
        self._next(self.subscriptions)
        self.on_event, self.on_close, self.on_begin = on_event, on_close, on_begin
        self.on_subscribed()

        def end() -> None:
            self.ended += 1

        return end

    def alive(self) -> bool:
        return bool(self._next(self.is_alive))

    def read(self, _uuid: str) -> DomainReading:
        if isinstance(self.reading, ExternalError):
            raise self.reading
        return self.reading

    def usage(self, uuids: Sequence[str]) -> dict[str, DomainUsage]:
        self.clock.sleep(self.takes)
        self._next(self.answers)
        return {uuid: DomainUsage(RUNS) for uuid in uuids}


class Stage:
    def __init__(self) -> None:
        self.clock, self.runtime = SetClock(100.0), Runtime()
        self.host, self.inbox = Host(self.clock), queue.Queue[Message]()
        self.rounds = Rounds()
        self.watch = HostWatch(
            "hv1",
            self.host,  # type: ignore[arg-type]
            [WEB],
            self.inbox,
            self.clock,
            self.runtime,
            self.rounds,
        )

    def runs(self, task: str, waits: int) -> list[Message]:
        """What one of the tasks tells until it has waited so often."""
        stop: Any = Flag(self.runtime.waits, len(self.runtime.waits) + waits)
        self.watch.start(stop)
        self.runtime.tasks[task]()
        found = list(self.inbox.queue)
        self.inbox.queue.clear()
        return found

    def hung(self, beats: int = 20) -> list[str]:
        """What has not gone round for so many signs of life."""
        return [self.rounds.hung() for _ in range(beats)][-1]

    def subscribed(self, waits: int) -> list[Message]:
        return self.runs("_keep_subscribed", waits)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setattr(host_watch, "TICK", 0.02)
    return Stage()


# -- the subscription ------------------------------------------------------------------------------------------


def test_a_libvirt_that_is_away_is_told_once_and_tried_every_second(stage: Stage) -> None:
    stage.host.subscriptions = [AWAY]
    assert stage.subscribed(4) == [Lost("hv1", str(AWAY))]
    assert stage.runtime.waits == [host_watch.RECONNECT_DELAY] * 4 == [1.0] * 4


def test_another_reason_is_told_too(stage: Stage) -> None:
    refused = ExternalError("hypervisor hv1 refuses the certificate")
    stage.host.subscriptions = [AWAY, AWAY, refused, refused, AWAY]
    assert stage.subscribed(6) == [Lost("hv1", str(error)) for error in (AWAY, refused, AWAY)]


def test_a_connection_that_is_lost_is_told_and_made_again(stage: Stage) -> None:
    """What was told of the outage before is told again: this is another one."""
    stage.host.subscriptions = [AWAY, None, AWAY]
    stage.host.is_alive = [True, True, False]
    away = Lost("hv1", str(AWAY))
    assert stage.subscribed(5) == [away, Connected("hv1"), LOST, away]
    assert stage.runtime.waits == [1.0, 0.02, 0.02, 0.02, 1.0]
    assert stage.host.ended == 1


def test_a_connection_whose_loss_libvirt_reports_is_not_waited_for(stage: Stage) -> None:
    stage.host.is_alive = [True]
    stage.host.on_subscribed = lambda: stage.host.on_close()
    stage.host.subscriptions = [None, AWAY]
    assert stage.subscribed(1) == [Connected("hv1"), LOST, Lost("hv1", str(AWAY))]
    assert stage.runtime.waits == [1.0]


def test_a_loss_that_libvirt_has_reported_does_not_end_the_next_connection(stage: Stage) -> None:
    def closes_once() -> None:
        stage.host.on_subscribed = lambda: None
        stage.host.on_close()

    stage.host.is_alive, stage.host.on_subscribed = [True], closes_once
    assert stage.subscribed(3) == [Connected("hv1"), LOST, Connected("hv1")]
    assert stage.host.ended == 2


def test_the_end_of_the_watch_is_no_loss(stage: Stage) -> None:
    stage.host.is_alive = [True]
    assert stage.subscribed(3) == [Connected("hv1")]
    assert stage.host.ended == 1


def test_a_vm_that_begins_is_told(stage: Stage) -> None:
    stage.host.on_subscribed = lambda: stage.host.on_begin(WEB)
    assert stage.subscribed(1)[0] == Began("hv1", WEB)


# -- its events ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [None, AWAY])
def test_after_an_event_the_vm_is_read(stage: Stage, error: ExternalError | None) -> None:
    event, foreign = (DomainEvent(uuid, stopped=True, reason="crashed") for uuid in (WEB, OTHER))

    def hears() -> None:
        for heard in (foreign, event):
            stage.host.on_event(heard)

    stage.host.on_subscribed, stage.host.is_alive = hears, [True]
    stage.subscribed(1)
    stage.host.reading = error or RUNS
    stop: Any = Flag(stage.runtime.waits, None)
    put = stage.inbox.put

    def last(message: Message) -> None:
        put(message)
        stop.set()

    stage.inbox.put = last  # type: ignore[method-assign,assignment]
    stage.watch.start(stop)
    stage.runtime.tasks["_keep_reading"]()
    # Of a VM that is not in the plan nobody says anything.
    read = DomainReading(Power.UNREACHABLE, detail=AWAY.message) if error else RUNS
    assert list(stage.inbox.queue) == [Happened("hv1", event, read, 100.0)]


# -- questions -------------------------------------------------------------------------------------------------


def asked(stage: Stage, waits: int) -> list[Message]:
    return stage.runs("_keep_asking", waits)


def test_every_answer_is_told_with_its_times(stage: Stage) -> None:
    stage.host.takes = 0.5
    usage = {WEB: DomainUsage(RUNS)}
    assert asked(stage, 2) == [Heard("hv1", 100.0, 100.5, usage), Heard("hv1", 100.5, 101.0, usage)]
    assert stage.runtime.waits == [host_watch.ASK_EVERY] * 2 == [5.0] * 2


def test_its_silence_begins_when_it_was_heard_last(stage: Stage) -> None:
    stage.host.takes, stage.host.answers = 2.0, [None, AWAY]
    found = asked(stage, 3)
    assert found[1:] == [NotHeard("hv1", 102.0, AWAY.message)] * 2
    assert stage.runtime.waits == [5.0] * 3


def test_the_very_first_question_is_put_again_before_that_counts(stage: Stage) -> None:
    stage.host.answers = [AWAY, AWAY, None]
    assert asked(stage, 3) == [
        NotHeard("hv1", 100.0, AWAY.message),
        Heard("hv1", 100.0, 100.0, {WEB: DomainUsage(RUNS)}),
    ]
    assert stage.runtime.waits == [1.0, 5.0, 5.0]


def test_one_that_takes_its_time_to_say_nothing_is_silent_at_once(stage: Stage) -> None:
    stage.host.takes, stage.host.answers = 1.0, [AWAY]
    assert asked(stage, 1) == [NotHeard("hv1", 100.0, AWAY.message)]
    assert stage.runtime.waits == [5.0]


def test_once_it_is_connected_it_is_asked_without_a_wait(stage: Stage) -> None:
    stage.subscribed(1)
    stage.runtime.waits.clear()
    assert len(asked(stage, 1)) == 2
    assert stage.runtime.waits == [5.0]


# -- the watcher's own signs of life ---------------------------------------------------------------------------

ALL = ["questions to hypervisor hv1", "reading of VMs on hypervisor hv1", "subscription to hypervisor hv1"]


def test_a_task_that_does_not_go_round_is_named_from_the_start_on(stage: Stage) -> None:
    assert stage.hung() == []
    stop: Any = Flag([])
    stage.watch.start(stop)
    assert stage.hung() == ALL


@pytest.mark.parametrize(("task", "hung"), [("_keep_asking", ALL[1:]), ("_keep_subscribed", ALL[:2])])
def test_one_that_goes_round_is_not(stage: Stage, task: str, hung: list[str]) -> None:
    stop: Any = Flag(stage.runtime.waits, 1)
    stage.watch.start(stop)
    assert stage.hung() == ALL
    stage.runtime.tasks[task]()
    assert stage.hung(beats=1) == hung


def test_a_connection_that_lasts_goes_round(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def waits_long() -> bool:
        stage.hung()
        return True

    monkeypatch.setattr(stage.host, "alive", waits_long)
    stage.subscribed(2)
    assert "subscription to hypervisor hv1" not in stage.hung(beats=1)


@pytest.mark.parametrize(("well_for", "said"), [(60.0, 1), (60.1, 2)])
def test_what_breaks_again_after_a_minute_is_told_again(
    stage: Stage,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    well_for: float,
    said: int,
) -> None:
    asked: list[int] = []

    def breaks(_uuids: Sequence[str]) -> dict[str, DomainUsage]:
        asked.append(1)
        if len(asked) == 2:
            stage.clock.sleep(well_for)
        if len(asked) != 2:
            raise RuntimeError("can't start new thread")
        return {}

    monkeypatch.setattr(stage.host, "usage", breaks)
    assert len(stage.runs("_keep_asking", 3)) == 1
    wanted = "hypervisor hv1: internal error: RuntimeError: can't start new thread; this is a bug; restarting its watch"
    assert caplog.messages == [wanted] * said
