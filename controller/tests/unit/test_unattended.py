"""Failovers that nobody asked for: what those see that need the service, and what is tried again."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from journal_cases import finish

from evidence_cases import proof
from vcrecovery.core.decisions import GO, Readiness, Unmet, Wait
from vcrecovery.core.episode import Episode, Outcome, Request, Step, Symptom
from vcrecovery.core.service_state import Suspension
from vcrecovery.errors import ExternalError, NotNowError, NotStartedError, RefusedError
from vcrecovery.logs import about, set_up
from vcrecovery.operations import unattended as module
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.unattended import Unattended
from vcrecovery.plan.load import load_plan

PLAN = """\
version: 1
state_dir: {folder}/state
hypervisors: {{hv1: {{}}}}
secondaries:
  sec1:
    network: {{bridge: vcr0, address: 10.20.0.1/24}}
    receiver: {{address: 10.10.0.1}}
services:
  db:
    primary: {{hypervisor: hv1, uuid: 6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0001, address: 10.10.0.10}}
    standby: {{secondary: sec1, address: 10.20.0.10}}
    ports: [80]
  web:
    primary: {{hypervisor: hv1, uuid: 6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0002, address: 10.10.0.11}}
    standby: {{secondary: sec1, address: 10.20.0.11}}
    ports: [80]
    needs: [db]
"""


class Stage:
    """Service web needs db, which is failed over; what each try of that does is in `tries`."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "plan.yml").write_text(PLAN.format(folder=folder))
        self.env = Environment(load_plan(folder / "plan.yml"), self)
        self.journal = self.env.journal
        monkeypatch.setattr(self.env.probes, "answering", lambda *_words: [])
        monkeypatch.setattr(module, "fail_over_locked", self._fail_over)
        self.unattended = Unattended(self.env, reporter=None)  # type: ignore[arg-type]
        self.tries: list[Callable[[], None]] = []
        self.request: Request | None = None
        self.detected_at = 0.0
        #: What web was told in each try, and between them.
        self.during: list[Readiness] = []
        self.between: list[Readiness] = []
        self.at_work: list[bool] = []
        self.delays: list[float] = []

    # the clock

    def now(self) -> float:
        return 1000.0

    def steady(self) -> float:
        return 1000.0

    def sleep(self, seconds: float) -> None:
        self.delays.append(seconds)
        self.at_work.append(self.unattended.at_work("db"))
        self.between.append(self.web_is_told())

    def web_is_told(self) -> Readiness:
        found: Readiness = self._gate.readiness("web")
        return found

    def _fail_over(self, _env: Environment, service: str, _cause: str, request: Request, **more: Any) -> Episode | None:
        self._gate, self.request, self.detected_at = more["gate"], request, more["detected_at"]
        self.during.append(self.web_is_told())
        self.at_work.append(self.unattended.at_work(service))
        self.tries.pop(0)()
        return None

    def serves(self, outcome: Outcome = Outcome.DONE) -> None:
        episode = self.journal.open("db", "a test", Request(), 1.0)
        if outcome is Outcome.DONE:
            finish(self.journal, episode, 2.0, "served by its standby")
        else:
            self.journal.close(episode, outcome, "its primary serves", 2.0)

    def fail_over(self, **more: Any) -> Episode:
        return self.unattended("db", "libvirt: shutoff (crashed)", 999.0, Symptom.ENDED, **more)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(tmp_path, monkeypatch)


def fails(error: Exception) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


WAITS = Wait("waiting for db, which it needs")
WITHOUT = "fix that, then run it again; `vcrecovery failover web` does without"


def test_those_that_need_it_are_told_between_two_tries_why_it_is_not_up(stage: Stage) -> None:
    """Else they would wait for as long as it is tried, and their own failover would say nothing."""
    told: list[str] = []
    away, stale = ExternalError("LXD does not answer", "see why"), NotStartedError("needs x", unmet=True)
    full = NotStartedError("the secondary has no place")
    stage.tries = [fails(away), fails(stale), fails(full), stage.serves]
    episode = stage.fail_over(on_trouble=lambda error: told.append(error.message))
    assert episode.outcome is Outcome.DONE
    assert stage.during == [WAITS] * 4
    assert stage.between == [
        Unmet("needs db, which is not up: LXD does not answer", WITHOUT),
        Unmet("needs db, which is not up: it needs x", WITHOUT),
        Unmet("needs db, which is not up: the secondary has no place", WITHOUT),
    ]
    assert told == ["LXD does not answer", "not started: needs x", "the secondary has no place"]
    assert stage.delays == [1.0, 2.0, 4.0]
    assert stage.web_is_told() == GO


def test_it_is_at_work_from_the_first_try_to_the_end(stage: Stage) -> None:
    stage.tries = [fails(ExternalError("LXD does not answer")), stage.serves]
    assert not stage.unattended.at_work("db")
    stage.fail_over()
    assert stage.at_work == [True] * 3
    assert not stage.unattended.at_work("db")
    assert not stage.unattended.at_work("web")


@pytest.mark.parametrize("error", [RefusedError("its standby is too old"), ValueError("a bug")])
def test_whatever_ends_it_it_is_not_at_work_any_more(stage: Stage, error: Exception) -> None:
    stage.tries = [fails(error)]
    with pytest.raises(type(error)):
        stage.fail_over()
    assert not stage.unattended.at_work("db")
    assert stage.delays == []
    refused = Unmet("needs db, which is not up: its standby is too old", WITHOUT)
    silent = Wait("waiting for db, which it needs, and which does not answer")
    assert stage.web_is_told() == (refused if isinstance(error, RefusedError) else silent)


def test_what_is_asked_for(stage: Stage) -> None:
    stage.tries = [stage.serves]
    stage.fail_over(began_at=998.0, by="Zabbix", to="sec2")
    assert stage.request == Request(automatic=True, by="Zabbix", symptom=Symptom.ENDED, began_at=998.0, to="sec2")
    # From then on its time is counted, and not from the try that comes to something.
    assert stage.detected_at == 999.0


def test_without_another_word_the_watcher_has_asked_for_it(stage: Stage) -> None:
    """`vcrecovery history` says so."""
    stage.tries = [stage.serves]
    stage.fail_over()
    assert stage.request == Request(automatic=True, by="watch", symptom=Symptom.ENDED)


def test_where_there_was_nothing_to_do_its_own_newest_failover_is_what_was_done(stage: Stage) -> None:
    stage.serves()
    stage.journal.open("web", "a test", Request(), 2.0)
    stage.tries = [lambda: None]
    assert stage.fail_over().service == "db"


@pytest.mark.parametrize("steps", [(), (Step.CONFIRM,)])
def test_while_it_is_suspended_nothing_is_begun(stage: Stage, steps: tuple[Step, ...]) -> None:
    open_with(stage, steps)
    stage.journal.suspend("db", Suspension(900.0, None, "a new disk"))
    with pytest.raises(NotNowError) as caught:
        stage.fail_over()
    hint = "`vcrecovery resume db` when the work is over"
    assert str(caught.value) == f"automatic failover of db is suspended; {hint}"
    assert stage.during == []


def test_what_has_acted_is_brought_to_its_end_all_the_same(stage: Stage) -> None:
    """The primary is off: nobody could work on it."""
    open_with(stage, (Step.CONFIRM, Step.FENCE))
    stage.journal.suspend("db", Suspension(900.0, None, "a new disk"))

    def goes_on() -> None:
        open_with(stage, (Step.START, Step.PROBE))
        stage.journal.close(stage.journal.open("db", "a test", Request(), 1.0), Outcome.DONE, "served", 2.0)

    stage.tries = [goes_on]
    assert stage.fail_over().outcome is Outcome.DONE


def test_a_suspension_that_is_over_holds_nothing_up(stage: Stage) -> None:
    stage.journal.suspend("db", Suspension(900.0, 999.0, "a new disk"))
    stage.tries = [stage.serves]
    assert stage.fail_over().outcome is Outcome.DONE


def open_with(stage: Stage, steps: tuple[Step, ...]) -> None:
    episode = stage.journal.open("db", "a test", Request(), 1.0)
    for step in steps:
        stage.journal.end(stage.journal.begin(episode, step, 1.0), 1.0, ok=True, evidence=proof(step))


@pytest.mark.parametrize(
    ("outcome", "level"),
    [(Outcome.DONE, "INFO"), (Outcome.WITHDRAWN, "WARNING"), (Outcome.FALSE_ALARM, "INFO")],
)
def test_a_fence_that_was_tried_in_vain_is_a_warning(
    stage: Stage, caplog: pytest.LogCaptureFixture, outcome: Outcome, level: str
) -> None:
    caplog.set_level(logging.INFO, "vcrecovery.watch")

    def ends() -> None:
        if outcome is Outcome.WITHDRAWN:
            open_with(stage, (Step.CONFIRM,))
            episode = stage.journal.open("db", "a test", Request(), 1.0)
            stage.journal.begin(episode, Step.FENCE, 1.0)
        stage.serves(outcome)

    stage.tries = [ends]
    stage.fail_over()
    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    reason = "served by its standby" if outcome is Outcome.DONE else "its primary serves"
    assert said == [(level, f"db: epoch 1: {outcome}: {reason}")]


def test_so_is_a_switchover_that_its_vm_serves_after(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """The watcher has gone on with one that was left, and could only go back."""
    caplog.set_level(logging.INFO, "vcrecovery.watch")

    def goes_back() -> None:
        episode = stage.journal.open("db", "a test", Request(planned=True), 1.0)
        for step in (Step.CONFIRM, Step.SHUTDOWN, Step.TAKE_BACK):
            stage.journal.end(stage.journal.begin(episode, step, 1.0), 1.0, ok=True, evidence=proof(step))
        stage.journal.close(episode, Outcome.TAKEN_BACK, "its last files did not come", 2.0)

    stage.tries = [goes_back]
    stage.fail_over()
    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert said == [("WARNING", "db: epoch 1: taken back: its last files did not come")]


def test_each_failure_is_logged_with_the_time_to_the_next_try(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stage.tries = [fails(ExternalError("LXD does not answer", "see why")), stage.serves]
    stage.fail_over()
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert errors == ["db: LXD does not answer; see why; trying again in 1 s"]


def test_what_a_driver_logs_meanwhile_is_about_the_service(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def tries() -> None:
        logging.getLogger("vcrecovery.lxd").warning("LXD takes long")
        stage.serves()

    said, root = io.StringIO(), logging.getLogger()
    monkeypatch.setattr("sys.stderr", said)
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    set_up("json")
    stage.tries = [tries]
    about()
    stage.fail_over()
    about()
    lines = [json.loads(line) for line in said.getvalue().splitlines()]
    assert {line["message"]: line.get("service") for line in lines}["LXD takes long"] == "db"


def test_what_another_controller_has_ended_between_two_tries_is_not_begun_anew(stage: Stage) -> None:
    def left() -> None:
        open_with(stage, (Step.CONFIRM,))
        raise ExternalError("LXD does not answer")

    def ends(_error: ExternalError) -> None:
        stage.serves(Outcome.FALSE_ALARM)

    stage.tries = [left]
    assert stage.fail_over(on_trouble=ends).outcome is Outcome.FALSE_ALARM
    assert len(stage.journal.history("db")) == 1


def test_one_that_was_refused_between_two_tries_is_tried_all_the_same(stage: Stage) -> None:
    """An operator has asked for something else, and got no; the primary is as it was."""

    def left() -> None:
        open_with(stage, (Step.CONFIRM,))
        raise ExternalError("LXD does not answer")

    def refused(_error: ExternalError) -> None:
        stage.serves(Outcome.REFUSED)

    stage.tries = [left, stage.serves]
    assert stage.fail_over(on_trouble=refused).outcome is Outcome.DONE
    assert [episode.outcome for episode in stage.journal.history("db")] == [Outcome.DONE, Outcome.REFUSED]


def test_what_another_controller_ends_while_it_is_tried_is_not_begun_anew_either(stage: Stage) -> None:
    def left() -> None:
        open_with(stage, (Step.CONFIRM,))
        raise ExternalError("LXD does not answer")

    def ended_meanwhile() -> None:
        stage.serves(Outcome.FALSE_ALARM)
        raise ExternalError("LXD does not answer")

    stage.tries = [left, ended_meanwhile]
    assert stage.fail_over().outcome is Outcome.FALSE_ALARM
    assert len(stage.journal.history("db")) == 1
