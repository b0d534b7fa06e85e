"""Several services at the same time: who waits for whom, how many start at once, and what a failure in the middle does.

Threads, locks and journal are real; what the services run on is not.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from journal_cases import finish
from set_clock import SetClock

from evidence_cases import proof
from lab.waiting import wait_for
from vcrecovery.core.decide import decide
from vcrecovery.core.decisions import Blocked, Go, Readiness, Run, Unmet, Wait
from vcrecovery.core.episode import Episode, Outcome, Request, Step, StepRecord
from vcrecovery.core.evidence import Confirmation, HookRun, Proof
from vcrecovery.core.policy import Policy
from vcrecovery.core.power import Power
from vcrecovery.core.service_state import ServiceState, Side
from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.lxd.resources import Size
from vcrecovery.drivers.runtime import THREADS
from vcrecovery.errors import BusyError, ExitCode, ExternalError, NotStartedError, RefusedError, TakenBackError
from vcrecovery.operations import start_gate as module
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.failover import fail_over
from vcrecovery.operations.several import Result, as_data, fail_over_all, result_of, result_of_error, worst
from vcrecovery.operations.start_conditions import GIB, LiveConditions, starts_at_once
from vcrecovery.operations.start_gate import StartGate
from vcrecovery.plan.load import load_plan
from vcrecovery.store.journal import Journal

#: Seconds after which a thread that should have come on is stuck.
LONG = 60.0


@pytest.mark.parametrize(
    ("cores", "memory", "at_once"),
    [
        (1, 512 * 2**20, 1),
        (0, 0, 1),
        (2, 24 * GIB, 4),
        (8, 4 * GIB, 4),
        (8, 64 * GIB, 16),
        (128, 1024 * GIB, 32),
    ],
)
def test_the_limit_follows_cores_and_memory(cores: int, memory: int, at_once: int) -> None:
    assert starts_at_once(cores, memory) == at_once


# -- the core --------------------------------------------------------------------------------------------------

CONFIRMED = Confirmation(Power.SHUTOFF, reason="crashed", freshness=1.0)


def fenced(*more: StepRecord, restore_point: str | None = None) -> Episode:
    confirmed = replace(CONFIRMED, restore_asked=restore_point)
    steps = (
        StepRecord(Step.CONFIRM, 1.0, 2.0, True, confirmed),
        StepRecord(Step.FENCE, 2.0, 3.0, True),
    )
    return Episode(1, "web", 1, "a test", Request(restore_point=restore_point), 0.0, steps + more)


def test_the_start_waits_and_nothing_else_does() -> None:
    wait = Wait("waiting for db, which it needs")
    assert isinstance(decide(Episode(1, "web", 1, "a test", Request(), 0.0), Policy(), 0.0, wait), Run)
    held = decide(fenced(), Policy(), 4.0, wait)
    assert held == Wait("the primary is fenced; waiting for db, which it needs")
    assert isinstance(decide(fenced(restore_point="latest"), Policy(), 4.0, wait), Wait)
    probe = decide(fenced(StepRecord(Step.START, 3.0, 4.0, True)), Policy(), 5.0, wait)
    assert isinstance(probe, Run)
    assert probe.step is Step.PROBE
    start = decide(fenced(), Policy(), 4.0, Go())
    assert isinstance(start, Run)
    assert start.step is Step.START


def test_one_whose_needs_do_not_come_up_is_left() -> None:
    left = decide(fenced(), Policy(), 4.0, Unmet("needs db, which is not up", "mend db"))
    assert left == Blocked(Step.START, "needs db, which is not up", "mend db", unmet=True)
    assert left.sentence == "not started: needs db, which is not up"


# -- all of them -----------------------------------------------------------------------------------------------


class Services:
    """Some services, on one secondary: what their steps do, and what has happened."""

    def __init__(self, folder: Path, needs: Mapping[str, Sequence[str]], most: int = 100) -> None:
        self.journal = Journal(folder / "journal.db")
        self.of = dict(needs)
        self.limit = most
        #: Those whose standby runs already, in mode hot or frozen.
        self.run: set[str] = set()
        self.answers: set[str] = set()
        self.acts: dict[tuple[str, Step], Callable[[], None]] = {}
        self.log: list[tuple[str, Step]] = []
        self.held: list[tuple[str, str]] = []
        self.starting: set[str] = set()
        self.most_starting = 0
        self.lock = threading.Lock()
        self.start_gate = StartGate(self, SystemClock(), THREADS)

    # what the gate asks

    def needs(self, service: str) -> Sequence[str]:
        return self.of[service]

    def secondary(self, _service: str) -> str:
        return "sec1"

    def most(self, _secondary: str) -> int:
        return self.limit

    def boots(self, service: str) -> bool:
        return service not in self.run

    def state(self, service: str) -> ServiceState:
        return self.journal.state(service)

    def primary_answers(self, service: str) -> bool:
        return service in self.answers

    # what happens

    def happened(self, service: str, step: Step) -> None:
        with self.lock:
            self.log.append((service, step))
            if step is Step.START:
                self.starting.add(service)
                self.most_starting = max(self.most_starting, len(self.starting))
        if act := self.acts.get((service, step)):
            act()
        if step is Step.PROBE:
            with self.lock:
                self.starting.discard(service)

    def held_of(self, service: str) -> list[str]:
        with self.lock:
            return [sentence for name, sentence in self.held if name == service]

    def tell_held(self, episode: Episode, sentence: str) -> None:
        with self.lock:
            self.held.append((episode.service, sentence))

    def order(self, step: Step) -> list[str]:
        with self.lock:
            return [name for name, done in self.log if done is step]

    def begin(self, service: str) -> Episode | None:
        state = self.journal.state(service)
        if state.side is Side.STANDBY and state.open_episode is None:
            return None
        return fail_over(
            service,
            "a test",
            Request(),
            policy=Policy(has_dns=False),
            actuator=Actuator(self, service),
            journal=self.journal,
            clock=SystemClock(),
            reporter=ProgressReporter(self),
            gate=self.start_gate,
        )

    def all(self, *names: str) -> dict[str, Result]:
        told: list[Result] = []
        results = fail_over_all(names or tuple(self.of), self.begin, self.start_gate, told.append, Request())
        assert sorted(told, key=lambda r: r.service) == sorted(results, key=lambda r: r.service)
        return {result.service: result for result in results}


class ProgressReporter:
    def __init__(self, services: Services) -> None:
        self.services = services

    def begun(self, episode: Episode, step: Step, sentence: str) -> None: ...

    def ended(self, episode: Episode, step: Step, at: float, evidence: Proof) -> None: ...

    def failed(self, episode: Episode, step: Step, at: float, error: str) -> None: ...

    def further(self, episode: Episode, at: float, sentence: str) -> None: ...

    def waiting(self, episode: Episode, at: float, sentence: str) -> None:
        self.services.tell_held(episode, sentence)


class Actuator:
    def __init__(self, services: Services, service: str) -> None:
        self.services = services
        self.service = service

    secondary = "sec1"

    def epoch_elsewhere(self) -> int:
        return 0

    def run_hooks(self, *_said: object) -> tuple[HookRun, ...]:
        return ()

    def restore_problem(self, _episode: Episode) -> str:
        return ""

    def carry_out(self, step: Step, _episode: Episode) -> Proof:
        self.services.happened(self.service, step)
        return CONFIRMED if step is Step.CONFIRM else proof(step)


def fails(text: str) -> Callable[[], None]:
    def act() -> None:
        raise ExternalError(text, "mend it")

    return act


def refuses(text: str) -> Callable[[], None]:
    def act() -> None:
        raise RefusedError(text)

    return act


def until(event: threading.Event) -> Callable[[], None]:
    def act() -> None:
        assert event.wait(LONG)

    return act


@pytest.fixture
def in_background() -> Iterator[Callable[[Callable[[], object]], threading.Thread]]:
    threads: list[threading.Thread] = []

    def begin(work: Callable[[], object]) -> threading.Thread:
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        threads.append(thread)
        return thread

    yield begin
    for thread in threads:
        thread.join(LONG)
        assert not thread.is_alive()


def test_each_starts_once_those_that_it_needs_are_probed(tmp_path: Path) -> None:
    services = Services(tmp_path, {"web": ["app"], "app": ["db", "cache"], "cache": [], "db": []})
    results = services.all()
    assert {result.result for result in results.values()} == {"done"}
    done = services.log
    for later, earlier in (("web", "app"), ("app", "db"), ("app", "cache")):
        assert done.index((earlier, Step.PROBE)) < done.index((later, Step.START))


def test_only_the_start_waits(
    tmp_path: Path, in_background: Callable[[Callable[[], object]], threading.Thread]
) -> None:
    services = Services(tmp_path, {"web": ["db"], "db": [], "mail": []})
    go_on = threading.Event()
    services.acts["db", Step.PROBE] = until(go_on)
    in_background(services.all)
    try:
        wait_for(lambda: "web" in services.order(Step.FENCE), "the fence of web")
        wait_for(lambda: "mail" in services.order(Step.PROBE), "mail, which needs nothing")
        wait_for(lambda: services.held_of("web"), "its word that it waits")
        assert "web" not in services.order(Step.START)
    finally:
        go_on.set()
    wait_for(lambda: "web" in services.order(Step.START), "the start of web")
    assert services.held_of("web") == ["the primary is fenced; waiting for db, which it needs"]


def test_no_more_start_at_once_than_the_secondary_bears(
    tmp_path: Path, in_background: Callable[[Callable[[], object]], threading.Thread]
) -> None:
    names = [f"s{number}" for number in range(12)]
    services = Services(tmp_path, {name: [] for name in names}, most=3)
    go_on = threading.Event()
    for name in names:
        services.acts[name, Step.PROBE] = until(go_on)
    in_background(services.all)
    try:
        wait_for(lambda: len(services.order(Step.FENCE)) == 12, "every fence")
        wait_for(lambda: len(services.held) == 9, "those that wait")
        assert len(services.order(Step.START)) == 3
    finally:
        go_on.set()
    wait_for(lambda: all(services.journal.newest_done(name) for name in names), "all of them")
    assert services.most_starting == 3
    assert {text for _, text in services.held} == {
        "the primary is fenced; waiting for one of the 3 that start on sec1 at the same time"
    }


def test_one_that_runs_already_needs_no_place(tmp_path: Path) -> None:
    services = Services(tmp_path, {"a": [], "b": [], "hot": []}, most=1)
    services.run.add("hot")
    gate = services.start_gate
    assert gate.readiness("a") == Go()
    assert gate.readiness("hot") == Go()
    assert isinstance(gate.readiness("b"), Wait)
    gate.left("hot")
    gate.left("a")
    assert gate.readiness("b") == Go()


def test_fifty_services_with_two_places(tmp_path: Path) -> None:
    services = Services(tmp_path, {f"s{number}": [] for number in range(50)}, most=2)
    assert {result.result for result in services.all().values()} == {"done"}
    assert services.most_starting <= 2


def test_a_place_that_is_left_wakes_one_and_not_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_EVERY", LONG)
    services = Services(tmp_path, {f"s{number}": [] for number in range(40)}, most=2)
    asked: list[str] = []

    def readiness(service: str) -> Readiness:
        asked.append(service)
        return answer(service)

    answer = services.start_gate.readiness
    monkeypatch.setattr(services.start_gate, "readiness", readiness)
    assert {result.result for result in services.all().values()} == {"done"}
    # To be told to wait, to be woken, and at times to find that somebody new was quicker.
    assert len(asked) <= 5 * 40


@pytest.mark.parametrize("step", [Step.START, Step.PROBE])
def test_one_that_fails_holds_back_only_those_that_need_it(tmp_path: Path, step: Step) -> None:
    services = Services(tmp_path, {"web": ["app"], "app": ["db"], "db": [], "mail": []}, most=1)
    services.acts["db", step] = fails("db does not answer")
    results = services.all()
    assert {name: result.result for name, result in results.items()} == {
        "web": "not started",
        "app": "not started",
        "db": "failed",
        "mail": "done",
    }
    assert results["app"].reason == "needs db, which is not up: db does not answer"
    assert results["app"].hint == "fix that, then run it again; `vcrecovery failover app` does without"
    assert results["web"].reason == "needs app, which is not up: it needs db, which is not up: db does not answer"
    assert worst(result.exit_code for result in results.values()) is ExitCode.EXTERNAL
    assert "app" not in services.order(Step.START)
    # Its fence is not undone: the next call goes on from there, and status and explain say what it waits for.
    episode = services.journal.state("app").open_episode
    assert episode is not None
    assert episode.done(Step.FENCE)
    assert "not started: needs db" in episode.steps[-1].error

    services.acts.clear()
    again = services.all()
    assert {name: result.result for name, result in again.items()} == {
        "web": "done",
        "app": "done",
        "db": "done",
        "mail": "nothing to do",
    }
    assert services.order(Step.FENCE).count("app") == 1
    assert {result.result for result in services.all().values()} == {"nothing to do"}


def test_one_whose_primary_serves_on_is_up(tmp_path: Path) -> None:
    """It was refused since it still answers: who needs it can use it."""
    services = Services(tmp_path, {"web": ["db"], "db": []})
    services.acts["db", Step.CONFIRM] = refuses("db still answers")
    services.answers.add("db")
    results = services.all()
    assert (results["web"].result, results["db"].result) == ("done", "refused")
    assert worst(result.exit_code for result in results.values()) is ExitCode.REFUSED


def test_a_bug_in_one_does_not_take_the_others_along(tmp_path: Path) -> None:
    services = Services(tmp_path, {"web": ["db"], "db": [], "mail": []})

    def broken() -> None:
        raise ZeroDivisionError("by zero")

    services.acts["db", Step.FENCE] = broken
    results = services.all()
    assert {name: result.result for name, result in results.items()} == {
        "web": "not started",
        "db": "internal error",
        "mail": "done",
    }
    assert worst(result.exit_code for result in results.values()) is ExitCode.INTERNAL


def test_one_that_is_not_among_them_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    services = Services(tmp_path, {"web": ["db"], "db": []})
    monkeypatch.setattr(module, "SHOWS_WITHIN", 0.2)
    monkeypatch.setattr(module, "LOOK_EVERY", 0.05)
    result = services.all("web")["web"]
    assert result.result == "not started"
    assert result.reason == "needs db, which is not up: neither its primary nor its standby serves"
    assert result.hint.startswith("`vcrecovery failover db`, then run it again")
    services.answers.add("db")
    assert services.all("web")["web"].result == "done"


def test_one_that_fails_over_a_moment_later_is_waited_for(
    tmp_path: Path, in_background: Callable[[Callable[[], object]], threading.Thread]
) -> None:
    """As the watcher sees a host fail: each service by itself."""
    services = Services(tmp_path, {"web": ["db"], "db": []})
    in_background(lambda: services.all("web"))
    wait_for(lambda: services.held_of("web"), "web waits")
    assert services.all("db")["db"].result == "done"
    wait_for(lambda: services.journal.newest_done("web") is not None, "web")
    assert services.order(Step.START) == ["db", "web"]


def test_one_that_is_tried_again_is_waited_for_again(tmp_path: Path) -> None:
    services = Services(tmp_path, {"web": ["db"], "db": []})
    gate = services.start_gate
    gate.begin(["db"])
    assert isinstance(gate.readiness("web"), Wait)
    gate.failed("db", "LXD does not answer")
    assert gate.readiness("web") == Unmet(
        "needs db, which is not up: LXD does not answer",
        "fix that, then run it again; `vcrecovery failover web` does without",
    )
    with pytest.raises(NotStartedError, match="needs db, which is not up: LXD does not answer"):
        services.begin("web")
    gate.try_again("db")
    assert isinstance(gate.readiness("web"), Wait)
    episode = services.begin("db")
    gate.end("db")
    assert not gate.is_at_work("db")
    assert episode is not None
    assert episode.outcome is Outcome.DONE
    assert gate.readiness("web") == Go()


def done(journal: Journal, service: str, *steps: Step, again: bool = False) -> Episode:
    """A failover that is open, with these steps done."""
    episode = journal.open(service, "a test", Request(again=again, planned=Step.SHUTDOWN in steps), 1.0)
    for step in steps:
        journal.end(journal.begin(episode, step, 1.0), 1.0, ok=True, evidence=proof(step))
    return episode


TO_START = (Step.CONFIRM, Step.FENCE, Step.START)


@pytest.mark.parametrize(
    ("steps", "is_up"),
    [
        ((), True),
        ((Step.CONFIRM,), True),
        # What is fenced, or was ended by its switchover, is not there any more, whoever answers at its address.
        ((Step.CONFIRM, Step.FENCE), False),
        ((Step.CONFIRM, Step.SHUTDOWN), False),
        # It has started, and no port was seen open yet.
        (TO_START, False),
        ((*TO_START, Step.PROBE), True),
    ],
)
def test_a_need_is_up_while_nothing_was_done_to_its_primary_or_once_its_standby_answers(
    tmp_path: Path, steps: tuple[Step, ...], is_up: bool
) -> None:
    services = Services(tmp_path, {"web": ["db"], "db": []})
    services.answers.add("db")
    done(services.journal, "db", *steps)
    assert (services.start_gate.readiness("web") == Go()) is is_up


def test_a_need_whose_standby_has_ended_is_not_up_because_its_old_primary_answers(tmp_path: Path) -> None:
    """That one came back behind the failover, with the files of before."""
    services = Services(tmp_path, {"web": ["db"], "db": []})
    finish(services.journal, done(services.journal, "db"), 2.0)
    assert services.start_gate.readiness("web") == Go()
    services.answers.add("db")
    done(services.journal, "db", Step.CONFIRM, again=True)
    waits = "waiting for db, which it needs, and which does not answer"
    assert services.start_gate.readiness("web") == Wait(waits)


def test_a_need_that_serves_by_the_journal_is_waited_for_while_it_is_looked_at(tmp_path: Path) -> None:
    """Its standby may have ceased to answer: then it is brought up first, and this one starts after that."""
    services = Services(tmp_path, {"web": ["db"], "db": []})
    gate = services.start_gate
    finish(services.journal, done(services.journal, "db"), 2.0)
    gate.begin(["db"])
    assert gate.readiness("web") == Wait("waiting for db, which it needs")
    gate.failed("db", "LXD does not answer")
    assert isinstance(gate.readiness("web"), Unmet)
    gate.try_again("db")
    # It does not answer: a failover brings it up again, up to its ports.
    done(services.journal, "db", *TO_START, again=True)
    assert gate.readiness("web") == Wait("waiting for db, which it needs")
    done(services.journal, "db", Step.PROBE, again=True)
    assert gate.readiness("web") == Go()


def test_a_need_that_has_turned_out_to_serve_is_up(tmp_path: Path) -> None:
    services = Services(tmp_path, {"web": ["db"], "db": []})
    gate = services.start_gate
    finish(services.journal, done(services.journal, "db"), 2.0)
    gate.begin(["db"])
    gate.end("db")
    assert gate.readiness("web") == Go()


def test_a_need_that_two_calls_are_at_work_on_is_waited_for_until_both_have_ended(tmp_path: Path) -> None:
    gate = Services(tmp_path, {"web": ["db"], "db": []}).start_gate
    gate.begin(["db"])
    gate.begin(["db"])
    gate.end("db")
    assert gate.is_at_work("db")
    assert gate.readiness("web") == Wait("waiting for db, which it needs")
    gate.end("db", "LXD does not answer")
    assert not gate.is_at_work("db")
    assert isinstance(gate.readiness("web"), Unmet)
    # What came of it before says nothing of a new try.
    gate.begin(["db"])
    assert gate.readiness("web") == Wait("waiting for db, which it needs")


def test_one_need_that_does_not_come_up_is_enough(tmp_path: Path) -> None:
    gate = Services(tmp_path, {"web": ["db", "app"], "db": [], "app": []}).start_gate
    gate.begin(["db", "app"])
    gate.end("app", "no such image")
    found = gate.readiness("web")
    assert isinstance(found, Unmet)
    assert found.reason == "needs app, which is not up: no such image"


def test_a_need_that_is_silent_gets_its_time_each_time(tmp_path: Path) -> None:
    services, clock = Services(tmp_path, {"web": ["db"], "db": []}), SetClock()
    gate = StartGate(services, clock, THREADS)

    def silent_for(seconds: float) -> type[Readiness]:
        assert isinstance(gate.readiness("web"), Wait)
        clock.sleep(seconds)
        return type(gate.readiness("web"))

    assert silent_for(29.9) is Wait
    services.answers.add("db")
    assert gate.readiness("web") == Go()
    services.answers.clear()
    assert silent_for(29.9) is Wait
    clock.sleep(0.1)
    assert isinstance(gate.readiness("web"), Unmet)
    # Up by its standby, for a while.
    episode = done(services.journal, "db")
    finish(services.journal, episode, 2.0)
    assert gate.readiness("web") == Go()
    done(services.journal, "db", Step.CONFIRM, again=True)
    assert silent_for(29.9) is Wait


@pytest.mark.parametrize("what", ["begin", "try_again", "failed", "end"])
def test_what_happens_to_a_need_wakes_who_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(module, "LOOK_EVERY", 20.0)
    gate = Services(tmp_path, {"web": ["db"], "db": []}).start_gate
    gate.begin(["db"])
    assert isinstance(gate.readiness("web"), Wait)
    happens: dict[str, Callable[[], None]] = {
        "begin": lambda: gate.begin(["db"]),
        "try_again": lambda: gate.try_again("db"),
        "failed": lambda: gate.failed("db", "LXD does not answer"),
        "end": lambda: gate.end("db"),
    }
    happens[what]()
    begun = time.monotonic()
    gate.wait("web")
    assert time.monotonic() - begun < 10


def test_one_that_has_a_place_keeps_it_when_it_asks_again(tmp_path: Path) -> None:
    gate = Services(tmp_path, {"a": [], "b": [], "c": []}, most=2).start_gate
    assert [gate.readiness(name) == Go() for name in ("a", "b", "c", "a", "b", "c")] == [True, True, False] * 2


def test_a_place_goes_to_the_one_that_still_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_EVERY", 20.0)
    gate = Services(tmp_path, {"a": [], "b": [], "c": []}, most=1).start_gate
    assert gate.readiness("a") == Go()
    assert isinstance(gate.readiness("b"), Wait)
    assert isinstance(gate.readiness("c"), Wait)
    gate.left("b")
    gate.left("a")
    begun = time.monotonic()
    gate.wait("c")
    assert time.monotonic() - begun < 10
    assert gate.readiness("c") == Go()
    assert isinstance(gate.readiness("b"), Wait)


def test_one_that_is_alone_does_not_ask_how_big_the_machine_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    services = Services(tmp_path, {"web": [], "db": []})
    asked: list[str] = []

    def most(secondary: str) -> int:
        asked.append(secondary)
        return 1

    monkeypatch.setattr(services, "most", most)
    gate = services.start_gate
    assert (gate.readiness("web"), asked) == (Go(), [])
    assert gate.readiness("web") == Go()
    assert isinstance(gate.readiness("db"), Wait)
    gate.left("web")
    assert (gate.readiness("db"), asked) == (Go(), ["sec1"])


PLAN = """\
version: 1
state_dir: {folder}/state
hypervisors: {{hv1: {{}}}}
secondaries:
  hangs:
    network: {{bridge: vcr0, address: 10.20.0.1/24}}
    receiver: {{address: 10.10.0.1}}
  answers:
    network: {{bridge: vcr1, address: 10.21.0.1/24}}
    receiver: {{address: 10.10.0.2}}
services:
  web:
    primary: {{hypervisor: hv1, uuid: 6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0001, address: 10.10.0.10}}
    standby: {{secondary: hangs, address: 10.20.0.10}}
    ports: [80]
"""


class Machine:
    """The part of a secondary that says how big it is."""

    def __init__(self, says: Callable[[], object] = lambda: None) -> None:
        self._says = says

    def size(self) -> Size:
        self._says()
        return Size(cores=4, memory=64 * GIB)


def test_a_secondary_that_hangs_holds_no_start_on_another_back(
    tmp_path: Path, in_background: Callable[[Callable[[], object]], threading.Thread]
) -> None:
    (tmp_path / "plan.yml").write_text(PLAN.format(folder=tmp_path))
    env = Environment(load_plan(tmp_path / "plan.yml"))
    asked, release, found = threading.Event(), threading.Event(), list[int]()

    def hang() -> None:
        asked.set()
        assert release.wait(LONG)

    env.lxd = {"hangs": Machine(hang), "answers": Machine()}  # type: ignore[dict-item]
    around = LiveConditions(env)
    try:
        in_background(lambda: around.most("hangs"))
        assert asked.wait(LONG)
        other = in_background(lambda: found.append(around.most("answers")))
        other.join(LONG)
        assert found == [8]
    finally:
        release.set()


def test_a_secondary_that_says_how_big_it_is_is_asked_once_and_one_that_does_not_is_asked_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "vcrecovery.several")
    (tmp_path / "plan.yml").write_text(PLAN.format(folder=tmp_path))
    env = Environment(load_plan(tmp_path / "plan.yml"))
    asked: list[int] = []

    def away_at_first() -> None:
        asked.append(1)
        if len(asked) == 1:
            raise ExternalError("LXD on secondary answers does not answer")

    env.lxd = {"hangs": Machine(), "answers": Machine(away_at_first)}  # type: ignore[dict-item]
    around = LiveConditions(env)
    assert [around.most("answers") for _ in range(3)] == [2, 8, 8]
    assert len(asked) == 2
    assert caplog.messages == ["LXD on secondary answers does not answer"]


@pytest.mark.parametrize(("mode", "boots"), [("cold", True), ("warm", True), ("frozen", False), ("hot", False)])
def test_one_that_runs_already_takes_no_part_of_the_machine(tmp_path: Path, mode: str, boots: bool) -> None:
    text = PLAN.format(folder=tmp_path).replace("    ports: [80]", f"    ports: [80]\n    mode: {mode}")
    (tmp_path / "plan.yml").write_text(text)
    assert LiveConditions(Environment(load_plan(tmp_path / "plan.yml"))).boots("web") is boots


@pytest.mark.parametrize(("listens", "answers"), [(True, True), (False, False)])
def test_whether_a_primary_answers_is_asked_of_its_ports(tmp_path: Path, listens: bool, answers: bool) -> None:
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        text = PLAN.format(folder=tmp_path).replace("10.10.0.10", "127.0.0.1")
        (tmp_path / "plan.yml").write_text(text.replace("[80]", f"[{port.getsockname()[1]}]"))
        if listens:
            port.listen()
        around = LiveConditions(Environment(load_plan(tmp_path / "plan.yml")))
        assert around.primary_answers("web") is answers


# -- what came of it -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (
            NotStartedError("needs db, which is not up", "mend db", unmet=True),
            Result("web", "not started", "needs db, which is not up", "mend db", ExitCode.EXTERNAL),
        ),
        (
            RefusedError("it answers", "say --force"),
            Result("web", "refused", "it answers", "say --force", ExitCode.REFUSED),
        ),
        (BusyError("another is at work", "wait"), Result("web", "busy", "another is at work", "wait", ExitCode.BUSY)),
        (
            TakenBackError("its last files did not come", "see why"),
            Result("web", "taken back", "its last files did not come", "see why", ExitCode.EXTERNAL),
        ),
        (ExternalError("LXD is away"), Result("web", "failed", "LXD is away", "", ExitCode.EXTERNAL)),
        (
            ValueError("two\nlines"),
            Result("web", "internal error", "ValueError: two lines; this is a bug", "", ExitCode.INTERNAL),
        ),
        (
            ValueError(),
            Result("web", "internal error", "ValueError: no message; this is a bug", "", ExitCode.INTERNAL),
        ),
    ],
)
def test_an_error_is_told_in_one_line(error: Exception, result: Result) -> None:
    assert result_of_error("web", error) == result


def test_how_long_it_took_is_known_once_it_is_over(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    episode = done(journal, "web")
    assert result_of("web", episode, Request()).seconds is None
    finish(journal, episode, 3.5, "served by its standby")
    found = result_of("web", journal.history("web", 1)[0], Request())
    assert found == Result("web", "done", "served by its standby", epoch=1, seconds=2.5)
    assert result_of("web", None, Request()) == Result("web", "nothing to do", "its standby serves already")
    back = result_of("web", None, Request(back=True))
    assert back == Result("web", "nothing to do", "its primary serves already")
    assert as_data([found])[0] == {
        "service": "web",
        "result": "done",
        "reason": "served by its standby",
        "hint": "",
        "epoch": 1,
        "seconds": 2.5,
        "exit_code": 0,
    }


def test_one_that_another_controller_is_at_work_on_may_come_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So what it needs counts as silent, not as failed."""
    monkeypatch.setattr(module, "SHOWS_WITHIN", 0.2)
    monkeypatch.setattr(module, "LOOK_EVERY", 0.05)
    services = Services(tmp_path, {"web": ["db"], "db": []})

    def busy() -> None:
        raise BusyError("another controller is at work on db")

    services.acts["db", Step.CONFIRM] = busy
    results = services.all()
    assert results["db"].result == "busy"
    assert results["web"].reason == "needs db, which is not up: neither its primary nor its standby serves"


def test_the_worst_status() -> None:
    assert worst([]) is ExitCode.DONE
    assert worst([ExitCode.DONE, ExitCode.BUSY]) is ExitCode.BUSY
    assert worst([ExitCode.REFUSED, ExitCode.BUSY]) is ExitCode.REFUSED
    assert worst([ExitCode.REFUSED, ExitCode.EXTERNAL]) is ExitCode.EXTERNAL
