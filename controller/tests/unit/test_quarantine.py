"""Which old primaries are held: the decision as a table, and the thread with a hypervisor that comes and goes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from journal_cases import finish

from evidence_cases import proof
from lab.waiting import wait_for
from vcrecovery.core.domain import DomainEvent, DomainReading, DomainUsage
from vcrecovery.core.episode import Episode, Outcome, Request, Step, StepRecord
from vcrecovery.core.power import Power
from vcrecovery.core.returning import Act, Quarantine, decide
from vcrecovery.core.service_state import ServiceState, Side, Suspension
from vcrecovery.detect import quarantine_keeper
from vcrecovery.detect.quarantine_keeper import QuarantineKeeper
from vcrecovery.drivers.lxd.instances import Instance
from vcrecovery.errors import ExternalError
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.serve_from_primary import serve_from_primary
from vcrecovery.plan.load import load_plan
from vcrecovery.standby.container import ACTIVE, EPOCH_KEY, ROLE_KEY, STANDBY
from vcrecovery.store.journal import Journal
from vcrecovery.store.quarantines import QuarantineBook, quarantine_lock

NOW = 1000.0
UUID = "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0001"
STARTED = DomainEvent(UUID, stopped=False, reason="", name="vm", event="started", detail="booted")
HELD = Quarantine(1, "web", 1, UUID, 990.0, 990.1)
BEGUN = Quarantine(1, "web", 1, UUID, 990.0)
OPEN = Episode(1, "web", 1, "a test", Request(), 900.0)
FENCED = Episode(1, "web", 1, "a test", Request(), 900.0, (StepRecord(Step.FENCE, 901.0, 902.0, ok=True),))
FENCING = Episode(1, "web", 1, "a test", Request(), 900.0, (StepRecord(Step.FENCE, 901.0),))
SERVES = ServiceState("web")
BACK = Episode(2, "web", 2, "a test", Request(back=True), 900.0)
GOES_BACK = ServiceState(
    "web", 2, Side.STANDBY, open_episode=replace(BACK, steps=(StepRecord(Step.BOOT, 901.0, 902.0, ok=True),))
)
PASSED = ServiceState("web", 1, Side.STANDBY)
HANDS_OFF = ServiceState("web", 1, Side.STANDBY, suspension=Suspension(950.0, None, "repair"))
WAS_PAUSED = ServiceState("web", 1, Side.STANDBY, suspension=Suspension(950.0, 960.0, "repair"))


@pytest.mark.parametrize(
    ("state", "power", "quarantine", "act"),
    [
        (PASSED, Power.RUNNING, None, Act.PAUSE),
        (PASSED, Power.RUNNING, HELD, Act.PAUSE),
        (PASSED, Power.RUNNING, BEGUN, Act.PAUSE),
        (PASSED, Power.PAUSED, None, Act.NOTHING),
        (PASSED, Power.PAUSED, HELD, Act.NOTHING),
        (PASSED, Power.PAUSED, BEGUN, Act.NOTE),
        (PASSED, Power.SHUTOFF, None, Act.NOTHING),
        (PASSED, Power.SHUTOFF, HELD, Act.FORGET),
        (PASSED, Power.CRASHED, HELD, Act.FORGET),
        (PASSED, Power.ABSENT, HELD, Act.FORGET),
        (PASSED, Power.UNREACHABLE, HELD, Act.NOTHING),
        (PASSED, Power.UNREACHABLE, None, Act.NOTHING),
        (HANDS_OFF, Power.RUNNING, None, Act.NOTHING),
        (HANDS_OFF, Power.RUNNING, HELD, Act.FORGET),
        (HANDS_OFF, Power.PAUSED, HELD, Act.NOTHING),
        (WAS_PAUSED, Power.RUNNING, None, Act.PAUSE),
        (SERVES, Power.RUNNING, None, Act.NOTHING),
        (SERVES, Power.PAUSED, None, Act.NOTHING),
        (SERVES, Power.PAUSED, HELD, Act.RESUME),
        (SERVES, Power.RUNNING, HELD, Act.FORGET),
        (ServiceState("web", open_episode=OPEN), Power.RUNNING, None, Act.NOTHING),
        (ServiceState("web", open_episode=FENCING), Power.RUNNING, None, Act.NOTHING),
        (ServiceState("web", open_episode=FENCING), Power.PAUSED, HELD, Act.NOTHING),
        (ServiceState("web", 1, open_episode=FENCED), Power.RUNNING, None, Act.PAUSE),
        (GOES_BACK, Power.RUNNING, None, Act.NOTHING),
        (GOES_BACK, Power.RUNNING, HELD, Act.FORGET),
        (GOES_BACK, Power.PAUSED, HELD, Act.NOTHING),
        # Before it is booted it is an old primary as any other.
        (replace(GOES_BACK, open_episode=BACK), Power.RUNNING, None, Act.PAUSE),
    ],
)
def test_what_is_done(state: ServiceState, power: Power, quarantine: Quarantine | None, act: Act) -> None:
    assert decide(state, power, quarantine, NOW) is act


@pytest.mark.parametrize("quarantine", [HELD, BEGUN])
def test_a_failover_that_ends_while_its_state_is_read_lets_no_old_primary_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quarantine: Quarantine
) -> None:
    """Another controller's: between two statements it may go from the fence to its end."""
    journal, others = Journal(tmp_path / "journal.db"), Journal(tmp_path / "journal.db")
    episode = others.open("web", "a test", Request(by="test"), 1.0)
    for step in (Step.CONFIRM, Step.FENCE):
        others.end(others.begin(episode, step, 2.0), 2.0, ok=True, evidence=proof(step))
    rows, ended = journal.rows, False

    def then_it_ends(query: str, *values: object) -> list[tuple[Any, ...]]:
        nonlocal ended
        found = rows(query, *values)
        if not ended:
            ended = True
            for step in (Step.START, Step.PROBE):
                others.end(others.begin(episode, step, 3.0), 3.0, ok=True, evidence=proof(step))
            others.close(episode, Outcome.DONE, "", 3.0)
        return found

    monkeypatch.setattr(journal, "rows", then_it_ends)
    state = journal.state("web")
    assert ended
    assert decide(state, Power.PAUSED, quarantine, NOW) is not Act.RESUME
    assert decide(state, Power.RUNNING, None, NOW) is Act.PAUSE


class FakeHost:
    """A hypervisor with one VM; it can be away, and can fail to pause."""

    def __init__(self) -> None:
        self.power = Power.SHUTOFF
        self.away = self.stubborn = False
        self.suspended = self.resumed = 0
        self.tried = threading.Semaphore(0)
        self.told: Callable[[DomainEvent], None] | None = None

    def _ask(self) -> None:
        if self.away:
            raise ExternalError("hypervisor hv1 does not answer")

    def usage(self, uuids: Sequence[str]) -> dict[str, DomainUsage]:
        self._ask()
        return {uuid: DomainUsage(DomainReading(self.power)) for uuid in uuids}

    def suspend(self, _uuid: str, _timeout: float | None = None) -> bool:
        self._ask()
        self.tried.release()
        if self.stubborn:
            raise ExternalError("hypervisor hv1 did not pause the VM")
        if self.power is not Power.RUNNING:
            return False
        self.power = Power.PAUSED
        self.suspended += 1
        return True

    def resume(self, _uuid: str, _timeout: float | None = None) -> bool:
        self._ask()
        if self.power is not Power.PAUSED:
            return False
        self.power = Power.RUNNING
        self.resumed += 1
        return True

    def subscribe(self, on_event: Callable[[DomainEvent], None], _on_close: Callable[[], None]) -> Callable[[], None]:
        self._ask()
        self.told = on_event
        return lambda: None

    def alive(self) -> bool:
        return not self.away

    def start(self) -> None:
        self.power = Power.RUNNING
        if self.told is not None:
            self.told(STARTED)


class FakeLxd:
    """A secondary's; it can hang. `asked`: that often."""

    def __init__(self, role: str, epoch: int) -> None:
        self.role, self.epoch = role, epoch
        self.answers = threading.Event()
        self.asked = 0

    def get(self, name: str) -> Instance:
        self.asked += 1
        self.answers.wait(30)
        return Instance(name, True, "Running", {ROLE_KEY: self.role, EPOCH_KEY: str(self.epoch)}, {})


class Stage:
    def __init__(self, plan_file: Path) -> None:
        self.env = Environment(load_plan(plan_file))
        self.host = FakeHost()
        self.env.hosts["hv1"] = self.host  # type: ignore[assignment]
        self.book = QuarantineBook(self.env.journal)

    def fail_over(self) -> None:
        journal = self.env.journal
        finish(journal, journal.open("web", "a test", Request(by="test"), 1.0), 2.0)

    @contextmanager
    def holding(self) -> Iterator[None]:
        stop = threading.Event()
        thread = threading.Thread(target=QuarantineKeeper(self.env, "hv1", ["web"]).run, args=(stop,))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(30)
        assert not thread.is_alive()

    def held(self) -> bool:
        quarantine = self.book.open("web")
        return quarantine is not None and quarantine.held_at is not None


@pytest.fixture
def stage(plan_file: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setattr(quarantine_keeper, "TICK", 0.02)
    monkeypatch.setattr(quarantine_keeper, "LOOK_EVERY", 0.05)
    return Stage(plan_file)


def test_a_hypervisor_is_not_asked_while_its_primaries_serve(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = threading.Semaphore(0)
    look = QuarantineBook.in_question

    def counted(book: QuarantineBook) -> set[str]:
        rounds.release()
        return look(book)

    monkeypatch.setattr(QuarantineBook, "in_question", counted)
    stage.host.start()
    with stage.holding():
        for _ in range(5):
            assert rounds.acquire(timeout=30)
        assert (stage.host.told, stage.host.suspended) == (None, 0)
        stage.fail_over()
        wait_for(stage.held, "the hold")


def test_events_alone_are_enough(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine_keeper, "LOOK_EVERY", 1e9)
    stage.fail_over()
    with stage.holding():
        wait_for(lambda: stage.host.told, "the subscription")
        stage.host.start()
        wait_for(stage.held, "the hold")
    assert stage.host.suspended == 1


def test_a_hypervisor_that_was_away_is_looked_at_when_it_is_back(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.fail_over()
    stage.host.away = True
    with stage.holding():
        wait_for(lambda: "does not answer" in caplog.text, "the complaint")
        stage.host.start()
        stage.host.away = False
        wait_for(stage.held, "the hold")
    assert caplog.text.count("does not answer") == 1


def test_one_that_somebody_works_on_is_looked_at_soon_after(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at the next round only: two copies may be alive meanwhile."""
    monkeypatch.setattr(quarantine_keeper, "LOOK_EVERY", 1e9)
    looks, usage = threading.Semaphore(0), stage.host.usage

    def counted(uuids: Sequence[str]) -> dict[str, DomainUsage]:
        looks.release()
        return usage(uuids)

    monkeypatch.setattr(stage.host, "usage", counted)
    stage.fail_over()
    stage.host.start()
    with quarantine_lock(stage.env.plan.state_dir, "web"), stage.holding():
        for _ in range(3):
            assert looks.acquire(timeout=30)


@pytest.mark.parametrize("where", ["alive", "usage"])
def test_what_breaks_once_does_not_end_the_holding(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    """As where this machine can start no thread for a moment: an old primary would run beside its standby, unseen."""
    works, broken = getattr(stage.host, where), threading.Event()

    def once(*words: Any) -> Any:
        if not broken.is_set():
            broken.set()
            raise RuntimeError("can't start new thread")
        return works(*words)

    monkeypatch.setattr(stage.host, where, once)
    stage.fail_over()
    with stage.holding():
        assert broken.wait(60)
        # Nothing reports it: it has to be looked at.
        stage.host.power = Power.RUNNING
        wait_for(stage.held, "the hold")
    assert "can't start new thread" in caplog.text


def test_one_that_cannot_be_paused_is_tried_again_and_said_once(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stage.fail_over()
    stage.host.stubborn = True
    stage.host.start()
    with stage.holding():
        for _ in range(3):
            assert stage.host.tried.acquire(timeout=30)
        quarantine = stage.book.open("web")
        assert quarantine is not None
        assert quarantine.held_at is None
        stage.host.stubborn = False
        wait_for(stage.held, "the hold")
    assert caplog.text.count("cannot be quarantined") == 1
    assert len(stage.book.history("web")) == 1


def test_a_full_disk_does_not_keep_it_running(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise ExternalError("the journal cannot be used: disk full")

    monkeypatch.setattr(QuarantineBook, "begin", full)
    stage.fail_over()
    stage.host.start()
    with stage.holding():
        wait_for(lambda: stage.host.power is Power.PAUSED, "the hold")
    assert stage.book.history("web") == []


def test_what_a_killed_controller_left_is_taken_up(stage: Stage) -> None:
    stage.fail_over()
    stage.book.begin("web", 1, UUID, 3.0)
    stage.host.power = Power.PAUSED
    with stage.holding():
        wait_for(stage.held, "the entry")
    assert stage.host.suspended == 0
    assert serve_from_primary(stage.env, "web")
    assert (stage.host.power, stage.host.resumed) == (Power.RUNNING, 1)


def test_a_reset_that_is_at_work_is_waited_for(stage: Stage) -> None:
    stage.fail_over()
    stage.host.start()
    with quarantine_lock(stage.env.plan.state_dir, "web"), stage.holding():
        assert not stage.host.tried.acquire(timeout=0.3)
        stage.env.journal.serve_from_primary("web", stage.env.clock.now())
    with stage.holding():
        assert not stage.host.tried.acquire(timeout=0.3)
    assert stage.book.history("web") == []


def test_a_reset_without_its_hypervisor_changes_nothing(stage: Stage) -> None:
    stage.fail_over()
    stage.host.start()
    with stage.holding():
        wait_for(stage.held, "the hold")
    stage.host.away = True
    with pytest.raises(ExternalError, match="does not answer"):
        serve_from_primary(stage.env, "web")
    assert stage.env.journal.state("web").side is Side.STANDBY
    assert stage.held()


def test_only_what_was_held_is_resumed(stage: Stage) -> None:
    stage.fail_over()
    stage.host.power = Power.PAUSED
    assert not serve_from_primary(stage.env, "web")
    assert stage.env.journal.state("web").side is Side.PRIMARY
    assert stage.host.power is Power.PAUSED


def test_one_that_is_resumed_during_a_suspension_is_left_alone(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    stage.fail_over()
    stage.host.start()
    with stage.holding():
        wait_for(stage.held, "the hold")
        stage.env.journal.suspend("web", Suspension(stage.env.clock.now(), None, "repair"))
        stage.host.start()
        wait_for(lambda: stage.book.open("web") is None, "the end of the hold")
    assert [quarantine.released for quarantine in stage.book.history("web")] == ["it was resumed by hand"]
    assert "web: the quarantine of its old primary has ended: it was resumed by hand" in caplog.text
    assert stage.host.power is Power.RUNNING


def test_a_vm_that_is_shut_down_is_not_held_any_more(stage: Stage) -> None:
    stage.fail_over()
    stage.host.start()
    with stage.holding():
        wait_for(stage.held, "the hold")
        stage.host.power = Power.SHUTOFF
        wait_for(lambda: stage.book.open("web") is None, "the end of the hold")
        stage.host.start()
        wait_for(stage.held, "the next hold")
    assert [quarantine.released for quarantine in stage.book.history("web")] == ["", "it is shutoff"]


def test_one_whose_journal_is_behind_is_paused_after_a_failover_of_another_controller(stage: Stage) -> None:
    stage.env.lxd["sec1"] = lxd = FakeLxd(STANDBY, 1)  # type: ignore[assignment]
    lxd.answers.set()
    stage.fail_over()
    with stage.holding():
        wait_for(lambda: stage.host.told, "the subscription")
        stage.host.start()
        wait_for(lambda: lxd.asked > 2, "some questions")
        assert stage.host.suspended == 0
        lxd.role, lxd.epoch = ACTIVE, 2
        wait_for(stage.held, "the hold")


def test_a_secondary_that_hangs_is_not_asked_for_each_of_its_vms(stage: Stage) -> None:
    """Two copies are live for as long as it is waited for."""
    stage.env.lxd["sec1"] = lxd = FakeLxd(STANDBY, 1)  # type: ignore[assignment]
    stage.fail_over()
    with stage.holding():
        wait_for(lambda: stage.host.told, "the subscription")
        for _ in range(3):
            stage.host.start()
            wait_for(lambda: stage.host.power is Power.PAUSED, "the pause")
        lxd.answers.set()
    assert (stage.host.suspended, lxd.asked) == (3, 1)
