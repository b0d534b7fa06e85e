"""The watcher looks at loads, says once what it would move, and moves with calm in between."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from journal_cases import finish
from set_clock import SetClock
from test_spare import SPARE, with_a_spare

from evidence_cases import proof
from vcrecovery.balance.amounts import Amounts
from vcrecovery.balance.choice import told
from vcrecovery.balance.load import ContainerReading, Load, MachineReading, Reading
from vcrecovery.cli.main import cli
from vcrecovery.core.episode import Outcome, Request, Step
from vcrecovery.core.lease import LeaseState
from vcrecovery.core.move import BALANCE
from vcrecovery.core.service_state import Suspension
from vcrecovery.detect import load_watch
from vcrecovery.detect.load_watch import EVERY, LoadWatch
from vcrecovery.detect.rounds import Rounds
from vcrecovery.drivers.lxd.copies import CopyAgainError
from vcrecovery.drivers.lxd.flavour import INCUS, LXD, Flavour
from vcrecovery.errors import CalledOffError, ExternalError, RefusedError, UsageError
from vcrecovery.operations.elastic.room import growth_of, would_make
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.places import aimed
from vcrecovery.operations.rebalance import loads_over, proposed, question, request_of
from vcrecovery.operations.serving import failing_over
from vcrecovery.operations.steps import moving
from vcrecovery.plan.load import load_plan
from vcrecovery.plan.modes import Mode
from vcrecovery.plan.places import place
from vcrecovery.plan.problems import PlanError
from vcrecovery.report.secondaries import of_secondaries
from vcrecovery.standby import copies
from vcrecovery.standby.modes import ChosenModes
from vcrecovery.store.drained import Drained, DrainedBook
from vcrecovery.store.journal import Journal
from vcrecovery.store.leases import LeaseBook
from vcrecovery.store.load_book import LoadBook

GIB = 1 << 30


class Threads:
    """Does at once what is to be done beside it."""

    fails = False

    def spawn(self, target: Callable[[], None], name: str) -> Any:
        if self.fails and name.startswith("move"):
            raise RuntimeError("can't start new thread")
        target()
        return SimpleNamespace(join=lambda: None)


class Lxd:
    """Of two cores, of which web and one that is none of ours use some; it answers while `answers`."""

    is_here = False
    flavour = LXD

    def __init__(self, clock: SetClock) -> None:
        self.clock, self.answers, self.memory_used = clock, True, GIB
        self._began, self._cpu, self._used = clock.time, {"web": 0.0, "other": 0.0}, {"web": 0.0, "other": 0.0}

    def uses(self, web: float, other: float = 0.0) -> None:
        for name, cpu in self._cpu.items():
            self._used[name] += cpu * (self.clock.time - self._began)
        self._began, self._cpu = self.clock.time, {"web": web, "other": other}

    def reading(self, pool: str) -> Reading:
        assert pool == "default"
        if not self.answers:
            raise ExternalError("LXD on secondary sec1 does not answer: x", "start it")
        self.uses(**self._cpu)
        containers = {name: ContainerReading(used, GIB // 4, 0, 5.0) for name, used in self._used.items()}
        return Reading(self.clock.time, 2, 4 * GIB, self.memory_used, 100 * GIB, 60 * GIB, containers)


class Site:
    """A watcher, and what it looks at. The standby of web is on sec1, and serves there."""

    def __init__(self, file: Path, balance: str, monkeypatch: pytest.MonkeyPatch, *, waits: bool = False) -> None:
        plan = with_a_spare(
            file, "spare: {secondary: sec2, address: 10.21.0.10}", ("services:", f"{balance}\nservices:")
        )
        plan.state_dir.mkdir(parents=True, exist_ok=True)
        self.clock, self.threads = SetClock(), Threads()
        self.env = Environment(plan, self.clock, self.threads)  # type: ignore[arg-type]
        self.lxd = {"sec1": Lxd(self.clock), "sec2": Lxd(self.clock)}
        self.env.__dict__["lxd"] = self.lxd
        journal = self.env.journal
        if not waits:
            finish(journal, journal.open("web", "x", Request(), 1.0), 2.0)
        self.moves: list[tuple[str, str, str]] = []
        monkeypatch.setattr(load_watch, "carry_out", self._moved)
        self.watch = LoadWatch(self.watched(), None, Rounds())  # type: ignore[arg-type]
        self.fails = self.called_off = False

    def watched(self) -> Environment:
        env = self.env.apart()
        env.__dict__["lxd"] = self.lxd
        return env

    def _moved(self, env: Environment, service: str, to: str, why: str, by: str, _reporter: Any) -> None:
        self.moves.append((service, to, why))
        assert by == "balance"
        # What it does to its plan is nobody else's business.
        place(env.plan, service, to)
        journal, now = self.env.journal, self.clock.now()
        episode = journal.open(service, why, request_of(to, by), now)
        if self.called_off:
            raise CalledOffError("mail fails over, which comes first")
        if self.fails:
            raise RefusedError("it cannot be", "wait")
        for step in (Step.CONFIRM, Step.COPY, Step.STOP, Step.LAST_COPY, Step.START, Step.PROBE):
            journal.end(journal.begin(episode, step, now), now, ok=True, evidence=proof(step))
        journal.close(episode, Outcome.DONE, "it is there", now)

    def go_on(self, seconds: float) -> None:
        for _ in range(int(seconds / EVERY)):
            self.clock.sleep(EVERY)
            self.watch.turn()

    def loads(self) -> dict[str, Load]:
        return {name: seen.load for name, seen in self.seen().items() if seen.load is not None}

    def seen(self) -> Any:
        return LoadBook(self.env.plan.state_dir).read(self.clock.now())


def test_a_failover_of_what_has_left_the_plan_holds_nobody_up(plan_file: Path) -> None:
    env = Environment(load_plan(plan_file))
    env.journal.open("web", "x", Request(), 1.0)
    assert failing_over(env) == ["web"]
    del env.plan.services["web"]
    assert failing_over(env) == []


@pytest.fixture
def site(plan_file: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Site]:
    return lambda balance: Site(plan_file, balance, monkeypatch)


def test_it_proposes_once_and_says_when_it_is_over(
    site: Callable[[str], Site], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "vcrecovery.watch")
    here = site("balance: {target: 60}")
    here.lxd["sec1"].uses(1.0)
    here.go_on(60)
    assert of_secondaries(here.env) == []
    here.lxd["sec1"].uses(1.9)
    here.lxd["sec2"].uses(0.0)
    here.go_on(300)
    (said,) = [record.message for record in caplog.records]
    # It uses more than fits anywhere.
    assert said == (
        "secondary sec1 is overloaded (95 % of its cores): nothing can be moved: web: sec2 would have 95 % of its "
        "cores, 31 % of its memory, 40 % of its pool in use"
    )
    (finding,) = of_secondaries(here.env)
    assert "no move relieves it; give services there a spare with room" in str(finding)
    here.lxd["sec1"].uses(0.2)
    here.go_on(60)
    assert caplog.records[-1].message == "secondary sec1 is not overloaded any more"
    assert of_secondaries(here.env) == []


def test_what_is_proposed_is_what_rebalance_would_do(
    site: Callable[[str], Site], caplog: pytest.LogCaptureFixture
) -> None:
    here = site("balance: {cpu_high: 50, target: 48}")
    here.lxd["sec1"].uses(0.5, 0.6)
    here.go_on(300)
    (said,) = [record.message for record in caplog.records]
    assert "web to sec2: takes 0.5 cores and 256 MiB of memory off sec1" in said
    assert said.endswith("; `vcrecovery rebalance` does it")
    assert here.moves == []
    assert "; `vcrecovery rebalance` does it" in str(of_secondaries(here.env)[0])
    assert here.seen()["sec1"].proposal[0] in said


MOVING = "balance: {do: move, cpu_high: 50, target: 48}"


def test_it_moves_and_nobody_else_sees_it_elsewhere_before(site: Callable[[str], Site]) -> None:
    here = site(MOVING)
    here.lxd["sec1"].uses(0.5, 0.6)
    here.go_on(300)
    assert here.moves == [("web", "sec2", "secondary sec1 is overloaded (55 % of its cores)")]
    assert here.env.plan.services["web"].standby.secondary == "sec1"
    assert here.seen()["sec1"].load is not None
    here.go_on(7200)
    assert len(here.moves) == 1


def test_what_is_moved_in_vain_is_moved_again_ever_later(site: Callable[[str], Site]) -> None:
    here = site(MOVING)
    here.fails = True
    here.lxd["sec1"].uses(0.5, 0.6)
    here.go_on(300)
    for already, calm in ((1, 1700), (2, 3500), (3, 7000)):
        assert len(here.moves) == already
        here.go_on(calm - 200)
        assert len(here.moves) == already
        here.go_on(300)
    # Another watcher knows that, too.
    here.watch = LoadWatch(here.watched(), None, Rounds())  # type: ignore[arg-type]
    here.go_on(600)
    assert len(here.moves) == 4
    assert (
        "it was moved in vain (it cannot be; wait): not again before "
        in proposed(here.env, here.loads(), ["sec1"], unasked=True).kept["web"]
    )
    assert len(proposed(here.env, here.loads(), ["sec1"]).moves) == 1


def test_one_for_which_no_thread_can_be_had_is_moved_later(site: Callable[[str], Site]) -> None:
    here = site(MOVING)
    here.threads.fails = True
    here.lxd["sec1"].uses(0.5, 0.6)
    here.go_on(300)
    here.threads.fails = False
    here.go_on(30)
    assert len(here.moves) == 1


def test_what_was_called_off_has_not_failed(site: Callable[[str], Site]) -> None:
    here = site(MOVING)
    here.called_off = True
    here.lxd["sec1"].uses(0.5, 0.6)
    here.go_on(300)
    assert here.env.journal.history("web", 1)[0].reason == "called off: mail fails over, which comes first"
    here.go_on(900)
    assert len(here.moves) == 2
    assert here.env.plan.balance.again_after == 900.0


def test_an_operators_move_counts_too(site: Callable[[str], Site]) -> None:
    """Loads of before it say nothing of now, and the two are left alone."""
    here = site(MOVING)
    here.lxd["sec1"].uses(0.5, 0.6)
    here.go_on(90)
    journal, now = here.env.journal, here.clock.now()
    episode = journal.open("web", "x", request_of("sec2", "root"), now)
    journal.close(episode, Outcome.REFUSED, "no", now)
    here.go_on(600)
    assert here.moves == []
    # Before that, by a clock that was set back: not for ever.
    here.clock.set_by = -7200.0
    here.go_on(60)
    assert len(here.moves) == 1


def test_failovers_come_first(site: Callable[[str], Site]) -> None:
    here = site(MOVING)
    here.lxd["sec1"].uses(0.5, 0.6)
    episode = here.env.journal.open("web", "x", Request(again=True), 3.0)
    here.go_on(300)
    assert here.moves == []
    finish(here.env.journal, episode, 4.0)
    here.go_on(60)
    assert len(here.moves) == 1


def test_what_nothing_came_of_is_given_up(site: Callable[[str], Site]) -> None:
    """Else it would be under way for ever, and the service would never be moved again."""
    here = site(MOVING)
    journal = here.env.journal
    here.fails = True
    here.lxd["sec1"].uses(0.5, 0.6)
    here.go_on(300)
    assert len(here.moves) == 1
    assert journal.state("web").open_episode is None
    ended = journal.history("web", 1)[0]
    assert (ended.outcome, ended.reason) == (Outcome.GIVEN_UP, "it cannot be; wait")
    # A watcher that was killed has left one.
    journal.open("web", "sec1 is overloaded", request_of("sec2", BALANCE), here.clock.now())
    here.go_on(EVERY)
    assert journal.history("web", 1)[0].reason == "called off: nobody goes on with it"
    # What an operator has begun is the operator's.
    journal.open("web", "x", request_of("sec2", "root"), here.clock.now())
    here.go_on(EVERY)
    assert journal.state("web").open_episode is not None


def test_nothing_goes_where_nothing_is_known_or_that_is_drained(site: Callable[[str], Site]) -> None:
    here = site(MOVING)
    here.lxd["sec1"].uses(0.5, 0.6)
    here.lxd["sec2"].answers = False
    here.go_on(300)
    assert here.moves == []
    assert here.seen()["sec2"].trouble == "LXD on secondary sec1 does not answer: x; start it"
    DrainedBook(here.env.journal).write("sec2", Drained(1.0, "root"))
    here.lxd["sec2"].answers = True
    here.go_on(300)
    assert here.moves == []
    DrainedBook(here.env.journal).forget("sec2")
    here.go_on(30)
    assert len(here.moves) == 1


@pytest.mark.parametrize(
    ("balance", "why"),
    [
        ("balance: {target: 60, pinned: [web]}", "pinned by the plan"),
        ("balance: {target: 60}", "sec2 would have 95 %"),
    ],
)
def test_what_stays_says_why(site: Callable[[str], Site], balance: str, why: str) -> None:
    here = site(balance)
    here.lxd["sec1"].uses(1.9)
    loads = loads_over(here.env, ["sec1", "sec2"], lambda: here.clock.sleep(5))
    known = {name: one for name, one in loads.items() if not isinstance(one, ExternalError)}
    choice = proposed(here.env, known, ["sec1"])
    assert choice.moves == ()
    assert choice.kept["web"].startswith(why)
    here.env.journal.suspend("web", Suspension(1.0, None, "work"))
    assert proposed(here.env, known, ["sec1"]).kept["web"] in (why, "suspended")


# -- those that wait -------------------------------------------------------------------------------------------------


def waiting(file: Path, monkeypatch: pytest.MonkeyPatch, mode: Mode, balance: str = MOVING) -> Site:
    """The standby of web waits on sec1, in that mode."""
    here = Site(file, balance, monkeypatch, waits=True)
    ChosenModes(here.env.plan.state_dir).write("web", mode)
    return here


@pytest.mark.parametrize("mode", [Mode.HOT, Mode.WARM])
def test_one_that_waits_and_runs_leaves_it(plan_file: Path, monkeypatch: pytest.MonkeyPatch, mode: Mode) -> None:
    here = waiting(plan_file, monkeypatch, mode)
    here.lxd["sec1"].uses(0.5, 0.6)
    here.go_on(300)
    assert here.moves == [("web", "sec2", "secondary sec1 is overloaded (55 % of its cores)")]


def test_nobody_is_said_to_wait_for_it(plan_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = waiting(plan_file, monkeypatch, Mode.HOT)
    here.lxd["sec1"].uses(0.5, 0.6)
    here.go_on(60)
    (move,) = proposed(here.env, here.loads(), ["sec1"]).moves
    assert (move.down, told(move).split("; ")[-1]) == (0.0, "its size is not known, its primary serves meanwhile")


@pytest.mark.parametrize(
    ("mode", "balance", "flavour", "why"),
    [
        (Mode.COLD, MOVING, LXD, "it is off while it waits, and takes disk only"),
        (Mode.FROZEN, MOVING, LXD, "it is frozen while it waits, and takes memory only"),
        (Mode.HOT, MOVING.replace("{", "{pinned: [web], "), LXD, "pinned by the plan"),
        (Mode.HOT, MOVING, INCUS, "Incus moves none that waits"),
    ],
)
def test_one_that_waits_and_stays_says_why(
    plan_file: Path, monkeypatch: pytest.MonkeyPatch, mode: Mode, balance: str, flavour: Flavour, why: str
) -> None:
    here = waiting(plan_file, monkeypatch, mode, balance)
    here.lxd["sec1"].flavour = flavour
    here.lxd["sec1"].uses(0.5, 0.6)
    here.go_on(300)
    assert here.moves == []
    assert proposed(here.env, here.loads(), ["sec1"]).kept == {"web": why}


def test_one_that_is_frozen_leaves_a_full_memory(plan_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = waiting(plan_file, monkeypatch, Mode.FROZEN, "balance: {do: move, memory_high: 24, target: 23}")
    here.lxd["sec2"].memory_used = 0
    here.go_on(300)
    assert here.moves == [("web", "sec2", "secondary sec1 is overloaded (25 % of its memory)")]


def test_one_that_waits_never_goes_beside_its_original(plan_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = waiting(plan_file, monkeypatch, Mode.HOT)
    secondary = here.env.plan.secondaries["sec2"]
    vm = SimpleNamespace(hypervisor=here.env.plan.services["web"].primary.hypervisor)
    here.env.plan.secondaries["sec2"] = secondary.model_copy(update={"vm": vm})
    here.lxd["sec1"].uses(0.5, 0.6)
    here.go_on(60)
    host = vm.hypervisor
    why = f"its spare, sec2, is a VM of {host}, as its primary is: both would fail together"
    assert proposed(here.env, here.loads(), ["sec1"]).kept == {"web": why}
    # Of one that serves the original is gone already.
    journal = here.env.journal
    finish(journal, journal.open("web", "x", Request(), 1.0), 2.0)
    assert len(proposed(here.env, here.loads(), ["sec1"]).moves) == 1


def test_one_that_does_not_answer_has_no_load(site: Callable[[str], Site]) -> None:
    here = site("balance: {target: 60}")
    here.lxd["sec1"].answers = False
    loads = loads_over(here.env, ["sec1"], lambda: None)
    assert isinstance(loads["sec1"], ExternalError)


@pytest.mark.parametrize("answers", [True, False])
def test_of_a_vm_of_the_plan_its_hypervisor_is_asked(site: Callable[[str], Site], answers: bool) -> None:
    here = site("balance: {target: 60}")
    here.lxd["sec1"].uses(0.5)
    vm = SimpleNamespace(hypervisor="hv1", domain=None)
    here.env.plan.secondaries["sec1"] = here.env.plan.secondaries["sec1"].model_copy(update={"vm": vm})

    def machine(name: str) -> MachineReading:
        assert name == "sec1"
        if not answers:
            raise ExternalError("hypervisor hv1 does not answer: x", "start it")
        return MachineReading(1.5 * here.clock.time, 0.3 * here.clock.time, {})

    here.env.__dict__["hosts"] = {"hv1": SimpleNamespace(machine=machine)}
    load = loads_over(here.env, ["sec1"], lambda: here.clock.sleep(5))["sec1"]
    assert isinstance(load, Load)
    assert load.used.cpu == pytest.approx(1.5 if answers else 0.5)
    assert load.stolen == (pytest.approx(0.3) if answers else None)
    assert load.whole == answers


def test_what_was_seen_is_forgotten(site: Callable[[str], Site]) -> None:
    here = site("balance: {target: 60}")
    here.go_on(60)
    assert sorted(here.seen()) == ["sec1", "sec2"]
    here.clock.sleep(61)
    assert here.seen() == {}
    (here.env.plan.state_dir / "loads.json").write_text("{")
    assert here.seen() == {}


# -- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("balance", "said"),
    [
        ("balance: {target: 95}", "target has to be below cpu_high, memory_high and network_high"),
        ("balance: {pinned: [wep]}", "no service is called 'wep'"),
        ("balance: {apart: [[web, db7]]}", "no service is called 'db7'"),
        ("balance: {apart: [[web]]}", "at least 2"),
        ("balance: {do: something}", "balance.do"),
        ("balance: {cpu_high: 120}", "balance.cpu_high"),
    ],
)
def test_what_a_plan_must_not_say(plan_file: Path, balance: str, said: str) -> None:
    with pytest.raises(PlanError) as caught:
        with_a_spare(plan_file, SPARE, ("services:", f"{balance}\nservices:"))
    assert any(said in str(problem) for problem in caught.value.problems), caught.value.problems


@pytest.mark.parametrize(("by", "goes_on"), [(BALANCE, False), ("root", True)])
def test_a_failover_ends_a_copy_that_nobody_waits_for(
    site: Callable[[str], Site], monkeypatch: pytest.MonkeyPatch, by: str, goes_on: bool
) -> None:
    here = site(MOVING)
    journal = here.env.journal
    running = SimpleNamespace(get=lambda _name: SimpleNamespace(status="Running"))
    monkeypatch.setattr(moving, "where_it_was", lambda _subject: (running, None))

    def copy(*_args: Any, look: Callable[[], None], **_more: Any) -> None:
        here.clock.sleep(moving.LOOK_EVERY)
        look()

    monkeypatch.setattr(copies, "copy", copy)
    subject: Any = SimpleNamespace(env=here.env, name="web", lxd=SimpleNamespace(name="sec2"))
    episode = journal.open("web", "x", request_of("sec2", by), here.clock.now())
    moving.copy(subject, episode, lambda _text: None)
    here.env.plan.services["mail"] = here.env.plan.services["web"]
    journal.open("mail", "its VM has crashed", Request(automatic=True), here.clock.now())
    if goes_on:
        moving.copy(subject, episode, lambda _text: None)
    else:
        with pytest.raises(ExternalError, match="mail fails over, which comes first"):
            moving.copy(subject, episode, lambda _text: None)


def test_a_drain_ends_a_copy_to_it(site: Callable[[str], Site], monkeypatch: pytest.MonkeyPatch) -> None:
    here = site(MOVING)
    episode = here.env.journal.open("web", "x", request_of("sec2", "root"), here.clock.now())
    running = SimpleNamespace(get=lambda _name: SimpleNamespace(status="Running"))
    monkeypatch.setattr(moving, "where_it_was", lambda _subject: (running, None))
    monkeypatch.setattr(copies, "copy", lambda *_args, **_more: None)
    subject: Any = SimpleNamespace(env=here.env, name="web", lxd=SimpleNamespace(name="sec2"))
    moving.copy(subject, episode, lambda _text: None)
    DrainedBook(here.env.journal).write("sec2", Drained(1.0, "root"))
    with pytest.raises(ExternalError, match=r"sec2 is drained, by root since .*; `vcrecovery undrain sec2`"):
        moving.copy(subject, episode, lambda _text: None)


@pytest.mark.parametrize(("vanishes", "tries"), [(3, 4), (99, moving.TRIES)])
def test_a_pass_that_fails_for_what_passes_is_made_again(
    site: Callable[[str], Site], monkeypatch: pytest.MonkeyPatch, vanishes: int, tries: int
) -> None:
    here, made = site(MOVING), list[int]()

    def copy(*_args: Any, **_more: Any) -> None:
        made.append(1)
        if len(made) <= vanishes:
            raise CopyAgainError("rsync: [exit status 24]")

    monkeypatch.setattr(moving, "where_it_was", lambda _subject: (None, None))
    monkeypatch.setattr(copies, "copy", copy)
    subject: Any = SimpleNamespace(env=here.env, name="web", lxd=SimpleNamespace(name="sec2"))
    with pytest.raises(CopyAgainError) if vanishes > tries else nullcontext():
        moving.one_pass(subject, 1, 60.0)
    assert len(made) == tries


# -- drain -------------------------------------------------------------------------------------------------------------


def drained(here: Site, *words: str) -> Any:
    file = here.env.plan.state_dir.parent / "plan.yml"
    return CliRunner().invoke(cli, [*words, "--plan", str(file)])


def test_one_that_comes_is_not_said_to_be_elsewhere(site: Callable[[str], Site]) -> None:
    """It has stopped already: nobody holds it up, and nobody may open that machine yet."""
    here = site(MOVING)
    journal, now = here.env.journal, here.clock.now()
    episode = journal.open("web", "x", request_of("sec2", "root"), now)
    for step in (Step.CONFIRM, Step.COPY, Step.STOP):
        journal.end(journal.begin(episode, step, now), now, ok=True, evidence=proof(step))
    done = drained(here, "drain", "sec2")
    assert "web: on the way to sec2" in done.stdout
    assert isinstance(done.exception, RefusedError)
    assert "secondary sec2 is not empty: web came, or comes, there" in str(done.exception)


def test_one_that_fails_over_to_it_is_not_said_to_wait(plan_file: Path) -> None:
    """Its standby has not started yet; a drain does not hold that up."""
    journal = Journal(load_plan(plan_file).state_dir / "journal.db")
    journal.open("web", "its VM has crashed", Request(automatic=True), 1.0)
    done = CliRunner().invoke(cli, ["drain", "sec1", "--plan", str(plan_file)])
    assert "web: on the way to sec1" in done.stdout
    assert isinstance(done.exception, RefusedError)


def test_one_that_the_plan_has_no_more_is_undrained(site: Callable[[str], Site]) -> None:
    here = site(MOVING)
    DrainedBook(here.env.journal).write("sec9", Drained(1.0, "root"))
    assert of_secondaries(here.env) == []
    assert drained(here, "undrain", "sec9").stdout == "sec9: takes standbys again\n"
    unknown = drained(here, "undrain", "sec9")
    assert isinstance(unknown.exception, UsageError)
    assert "has no secondary 'sec9'" in str(unknown.exception)


def test_a_service_without_a_spare_stays_and_is_named(plan_file: Path) -> None:
    journal = Journal(load_plan(plan_file).state_dir / "journal.db")
    finish(journal, journal.open("web", "x", Request(), 1.0), 2.0)
    done = CliRunner().invoke(cli, ["drain", "sec1", "--plan", str(plan_file)])
    assert "web: stays: it has no spare" in done.stdout
    assert isinstance(done.exception, RefusedError)
    assert "secondary sec1 still serves web, which have no spare" in str(done.exception)


def test_loads_that_nobody_can_read_are_no_success(plan_file: Path) -> None:
    done = CliRunner().invoke(cli, ["rebalance", "--plan", str(plan_file)])
    assert "sec1  not known: " in done.stdout
    assert isinstance(done.exception, ExternalError)


# -- secondaries that are made for a while ---------------------------------------------------------------------------

ELASTIC = """balance:
  do: move
  cpu_high: 50
  target: 48
  pinned: []
  elastic:
    template: {cores: 2, memory: 4GiB, networks: [10.30.1.1/24]}
    provisioner: {command: [cloud]}
    certificate: /x
    key: /x
    release_after: 1h"""


def joins(here: Site) -> str:
    """What the keeper does, once the cloud has made it."""
    book = LeaseBook(here.env.journal)
    (lease,) = book.open()
    book.change(lease, LeaseState.JOINED, joined_at=here.clock.now(), address="192.0.2.50", port=8443)
    here.lxd[lease.name] = Lxd(here.clock)
    return lease.name


def test_where_nothing_has_room_one_is_asked_for_once(
    site: Callable[[str], Site], caplog: pytest.LogCaptureFixture
) -> None:
    here = site(ELASTIC)
    here.lxd["sec1"].uses(0.5, 0.6)
    here.lxd["sec2"].uses(0.0, 0.9)
    here.go_on(600)
    (lease,) = LeaseBook(here.env.journal).open()
    assert lease.why == "sec1 is overloaded (55 % of its cores), and no other secondary has room"
    assert (lease.network, dict(lease.addresses)) == ("10.30.1.1/24", {"web": "10.30.1.2"})
    assert here.moves == []
    asked = [record.message for record in caplog.records if "asked for" in record.message]
    assert asked == [f"elastic-1: asked for: {lease.why}"]


def test_it_goes_there_and_home_again_when_the_load_is_gone(site: Callable[[str], Site]) -> None:
    here = site(ELASTIC)
    here.lxd["sec1"].uses(0.5, 0.6)
    here.lxd["sec2"].uses(0.0, 0.9)
    here.go_on(300)
    name = joins(here)
    here.go_on(90)
    assert [(service, to) for service, to, _ in here.moves] == [("web", name)]
    assert here.env.journal.standbys_elsewhere() == {"web": name}
    # The load goes on: nothing goes home, whatever time passes.
    here.lxd["sec1"].uses(0.0, 0.9)
    here.lxd[name].uses(0.5)
    here.go_on(3 * 3600)
    assert len(here.moves) == 1
    # It is gone for a while, and comes again: the time begins anew.
    here.lxd["sec1"].uses(0.0, 0.1)
    here.go_on(1800)
    here.lxd["sec1"].uses(0.0, 0.9)
    here.go_on(300)
    here.lxd["sec1"].uses(0.0, 0.1)
    here.go_on(3000)
    assert len(here.moves) == 1
    here.go_on(900)
    assert [(service, to, why) for service, to, why in here.moves[1:]] == [
        ("web", "sec1", "sec1 has room for it again")
    ]
    here.lxd[name].uses(0.0)
    here.lxd["sec1"].uses(0.4, 0.1)
    here.go_on(120)
    assert LeaseBook(here.env.journal).open()[0].state is LeaseState.RELEASING
    assert DrainedBook(here.env.journal).all()[name].asked_by == "balance"


def test_one_on_which_nobody_serves_is_given_back_whatever_the_watcher_may_move(site: Callable[[str], Site]) -> None:
    here = site(ELASTIC.replace("do: move", "do: propose"))
    book = LeaseBook(here.env.journal)
    assert book.ask("x", "x", "10.30.1.1/24", {"web": "10.30.1.2"}, here.clock.now(), 1) is not None
    joins(here)
    here.lxd["sec1"].uses(0.5, 0.1)
    here.go_on(3500)
    assert book.open()[0].state is LeaseState.JOINED
    here.go_on(300)
    assert book.open()[0].state is LeaseState.RELEASING


def lent(here: Site) -> str:
    """One was made, and nothing is there yet."""
    asked = LeaseBook(here.env.journal).ask("x", "x", "10.30.1.1/24", {"web": "10.30.1.2"}, here.clock.now(), 1)
    assert asked is not None
    return joins(here)


def test_one_that_is_being_given_back_takes_nothing_and_nobody_undrains_it(site: Callable[[str], Site]) -> None:
    """Its machine may be destroyed at that moment, which takes minutes."""
    here = site(ELASTIC)
    name = lent(here)
    journal = here.env.journal
    drained(here, "drain", name)
    assert LeaseBook(journal).give_back(LeaseBook(journal).open()[0], here.clock.now())
    undrained = drained(here, "undrain", name)
    assert isinstance(undrained.exception, RefusedError)
    assert f"{name} is being given back, and takes no standbys any more" in str(undrained.exception)
    here.env.place_standbys()
    with pytest.raises(RefusedError, match=f"{name} is being given back; name another secondary"):
        aimed(here.env, journal.state("web"), request_of(name, "root"))


def test_one_whose_drain_was_called_off_is_not_given_back(site: Callable[[str], Site]) -> None:
    here = site(ELASTIC)
    name = lent(here)
    book = LeaseBook(here.env.journal)
    drained(here, "drain", name)
    (seen,) = book.open()
    assert drained(here, "undrain", name).stdout.startswith(f"{name}: takes standbys again\n")
    assert not book.give_back(seen, here.clock.now())
    assert book.open()[0].state is LeaseState.JOINED


def test_one_that_is_dead_is_given_back_once_nobody_serves_there(site: Callable[[str], Site]) -> None:
    here = site(ELASTIC)
    name = lent(here)
    here.lxd["sec1"].uses(0.5, 0.1)
    here.lxd[name].answers = False
    here.go_on(3500)
    assert LeaseBook(here.env.journal).open()[0].state is LeaseState.JOINED
    here.go_on(300)
    assert LeaseBook(here.env.journal).open()[0].state is LeaseState.RELEASING


def test_one_that_is_dead_stays_while_somebody_serves_there(site: Callable[[str], Site]) -> None:
    """Who that is, and whether it does, only a failover decides."""
    here = site(ELASTIC)
    name = lent(here)
    here._moved(here.watched(), "web", name, "overloaded", "balance", None)
    here.lxd[name].answers = False
    here.go_on(2 * 3600)
    assert LeaseBook(here.env.journal).open()[0].state is LeaseState.JOINED


def test_one_that_is_dead_is_no_room_that_is_to_come(site: Callable[[str], Site]) -> None:
    here = site(ELASTIC.replace("networks: [10.30.1.1/24]}", "networks: [10.30.1.1/24, 10.30.2.1/24]}\n    at_most: 2"))
    name = lent(here)
    here.lxd[name].answers = False
    here.go_on(900)
    here.lxd["sec1"].uses(0.5, 0.6)
    here.lxd["sec2"].uses(0.0, 0.9)
    here.go_on(600)
    assert [lease.state for lease in LeaseBook(here.env.journal).open()] == [LeaseState.JOINED, LeaseState.ASKED]


@pytest.mark.parametrize("apart", [True, False])
def test_what_is_to_be_apart_is_not_brought_home_together(site: Callable[[str], Site], apart: bool) -> None:
    here = site(ELASTIC)
    beside_it(here, "db", apart=apart)
    name = lent(here)
    here._moved(here.watched(), "web", name, "overloaded", "balance", None)
    here.lxd["sec1"].uses(0.0, 0.1)
    here.go_on(2 * 3600)
    assert here.env.journal.standbys_elsewhere() == {"web": name if apart else "sec1"}


def beside_it(here: Site, name: str, *, apart: bool) -> None:
    """Another service, whose standby serves on sec1, too."""
    plan = here.env.plan
    plan.services[name] = plan.services["web"].model_copy(deep=True)
    plan.balance.apart.extend([[name, "web"]] if apart else [])
    finish(here.env.journal, here.env.journal.open(name, "x", Request(), 1.0), 2.0)
    here.watch = LoadWatch(here.watched(), None, Rounds())  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["propose", "failed lately", "failing over"])
def test_when_none_is_asked_for(site: Callable[[str], Site], how: str) -> None:
    here = site(ELASTIC.replace("do: move", "do: propose") if how == "propose" else ELASTIC)
    book, now = LeaseBook(here.env.journal), here.clock.now()
    if how == "failed lately":
        lease = book.ask("x", "x", "10.30.1.1/24", {}, now, 1)
        assert lease is not None
        book.change(lease, LeaseState.GONE, gone_at=now)
    if how == "failing over":
        here.env.journal.open("web", "x", Request(again=True), 3.0)
    here.lxd["sec1"].uses(0.5, 0.6)
    here.lxd["sec2"].uses(0.0, 0.9)
    here.go_on(600)
    assert book.open() == []
    if how == "failed lately":
        here.go_on(600)
        assert len(book.open()) == 1


def test_a_move_that_goes_on_is_reckoned_as_done(site: Callable[[str], Site]) -> None:
    """Another one beside it would be one too many: here, and where both go."""
    here = site("balance:\n  do: propose\n  cpu_high: 90\n  target: 70\n  pinned: []")
    beside_it(here, "db", apart=False)
    size = Amounts(2.0, 4 * GIB, 100 * GIB)
    each = {name: Amounts(cpu, GIB / 8) for name, cpu in (("web", 0.6), ("db", 0.65))}
    loads = {
        "sec1": Load(size, Amounts(1.9, GIB, GIB), each, True, seconds=60),
        "sec2": Load(size, Amounts(0.7, GIB, GIB), {}, True, seconds=60),
    }
    (move,) = proposed(here.env, loads, ["sec1"]).moves
    here.env.journal.open(move.container, "x", request_of(move.to, "root"), here.clock.now())
    found = proposed(here.env, loads, ["sec1"])
    assert (list(found.moves), dict(found.short)) == ([], {})
    # And whoever comes from elsewhere finds no room there.
    (full,) = (one for one in question(here.env, loads, ["sec1"], unasked=False).machines if one.name == "sec2")
    assert full.used.cpu == pytest.approx(0.7 + each[move.container].cpu)


def test_rebalance_says_that_it_would_make_one(site: Callable[[str], Site]) -> None:
    here = site(ELASTIC)
    here.lxd["sec1"].uses(0.5, 0.6)
    here.lxd["sec2"].uses(0.0, 0.9)
    loads = {
        name: load
        for name, load in loads_over(here.env, ["sec1", "sec2"], lambda: here.clock.sleep(5)).items()
        if isinstance(load, Load)
    }
    elastic = here.env.plan.balance.elastic
    assert elastic is not None
    said = would_make(elastic, growth_of(here.env, elastic, loads, ["sec1"], ()))
    assert said[0] == "would make a secondary with 2 cores and 4 GiB of memory:"
    assert said[1].startswith(
        "  web to new-1: takes 0.5 cores and 256 MiB of memory off sec1; new-1 has 30 % of its cores"
    )
    assert LeaseBook(here.env.journal).open() == []


def test_a_day_of_loads_makes_one_and_gives_it_back_once(site: Callable[[str], Site]) -> None:
    """Busy from ten to four, noisy all the time."""
    rng = random.Random(26)  # noqa: S311  loads, no secrets
    here = site(ELASTIC)
    here.lxd["sec2"].uses(0.0, 0.9)
    name = ""
    for look in range(int(86400 / 60)):
        busy = 600 <= look < 960
        other = max(0.0, rng.gauss(0.75 if busy else 0.15, 0.05))
        on_it = bool(here.env.journal.standbys_elsewhere())
        here.lxd["sec1"].uses(0.0 if on_it else max(0.0, rng.gauss(0.45, 0.05)), other)
        if name:
            here.lxd[name].uses(max(0.0, rng.gauss(0.45, 0.05)) if on_it else 0.0)
        here.go_on(60)
        leases = LeaseBook(here.env.journal).newest(9)
        if leases and leases[0].state is LeaseState.ASKED:
            name = joins(here)
        if leases and leases[0].state is LeaseState.RELEASING:
            LeaseBook(here.env.journal).change(leases[0], LeaseState.GONE, gone_at=here.clock.now())
            DrainedBook(here.env.journal).forget(leases[0].name)
            name = ""
    assert [(service, to) for service, to, _ in here.moves] == [("web", "elastic-1"), ("web", "sec1")]
    assert LeaseBook(here.env.journal).newest(9)[0].state is LeaseState.GONE
    assert len(LeaseBook(here.env.journal).newest(9)) == 1
