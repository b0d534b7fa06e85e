"""Several services at the same time: who waits for whom, how many start at once, and what a failure in the middle does.

Threads, locks and journal are real; what the services run on is not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from evidence_cases import proof
from lab.waiting import wait_for
from vcrecovery.core.decide import decide
from vcrecovery.core.decisions import Blocked, Go, Readiness, Run, Unmet, Wait
from vcrecovery.core.episode import Episode, Outcome, Request, Step, StepRecord
from vcrecovery.core.evidence import Confirmation, Proof
from vcrecovery.core.policy import Policy
from vcrecovery.core.power import Power
from vcrecovery.core.service_state import ServiceState, Side
from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.lxd.resources import Size
from vcrecovery.errors import ExitCode, ExternalError, NotStartedError, RefusedError
from vcrecovery.operations import start_gate as module
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.failover import fail_over
from vcrecovery.operations.several import Result, fail_over_all, worst
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
        self.start_gate = StartGate(self)

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

    def epoch_elsewhere(self) -> int:
        return 0

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


def test_the_worst_status() -> None:
    assert worst([]) is ExitCode.DONE
    assert worst([ExitCode.DONE, ExitCode.BUSY]) is ExitCode.BUSY
    assert worst([ExitCode.REFUSED, ExitCode.BUSY]) is ExitCode.REFUSED
    assert worst([ExitCode.REFUSED, ExitCode.EXTERNAL]) is ExitCode.EXTERNAL
