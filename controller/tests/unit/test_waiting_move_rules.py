"""A standby that waits for its VM goes on to wait elsewhere: what is done next, and what a failure leads to."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from evidence_cases import proof
from vcrecovery.core.decisions import Close, Run
from vcrecovery.core.domain import DomainReading
from vcrecovery.core.episode import Episode, Outcome, Request, Step, StepRecord
from vcrecovery.core.evidence import Confirmation, Failed
from vcrecovery.core.policy import Policy
from vcrecovery.core.power import Power
from vcrecovery.core.sighting import Place
from vcrecovery.core.waiting_move import goes_back_after, next_of_waiting_move
from vcrecovery.errors import ExternalError
from vcrecovery.operations.steps import waiting
from vcrecovery.operations.steps.subject import Subject

NOW = 1000.0
ALL = (Step.CONFIRM, Step.COPY, Step.STOP, Step.LAST_COPY, Step.RECEIVE, Step.SYNC)


def looked(power: Power, **saw: Any) -> StepRecord:
    seen = Confirmation(power, asked_for="move sec2", host="hv1", **saw)
    return StepRecord(Step.CONFIRM, NOW - 9, NOW - 9, True, seen)


def well(step: Step) -> StepRecord:
    return looked(Power.RUNNING) if step is Step.CONFIRM else StepRecord(step, NOW - 5, NOW - 4, True, proof(step))


def failed(step: Step) -> StepRecord:
    return StepRecord(step, NOW - 3, NOW - 2, False, Failed("no space left on sec2"))


def decided(*steps: StepRecord) -> object:
    request = Request(planned=True, to="sec2", leaves="sec1")
    return next_of_waiting_move(Episode(1, "web", 1, "an operator", request, NOW - 20, steps), Policy(), NOW)


@pytest.mark.parametrize("power", [Power.SHUTOFF, Power.CRASHED])
def test_one_whose_vm_is_off_is_not_moved(power: Power) -> None:
    said = f"the standby of web is not moved to sec2: its VM is {power}, and sends nothing there"
    assert decided(looked(power)) == Close(Outcome.REFUSED, said, "start it first")


@pytest.mark.parametrize(
    ("power", "saw", "why"),
    [
        (
            Power.SHUTOFF,
            {"reason": "migrated"},
            "its VM was migrated from hv1, and no hypervisor of the plan says that",
        ),
        (Power.ABSENT, {}, "its VM may run elsewhere: no hypervisor of the plan says that it has it"),
        (Power.ABSENT, {"silent": ("hv2",)}, "says that it has it, and hv2 does not answer"),
    ],
)
def test_nobody_is_told_to_start_a_vm_that_may_run_elsewhere(power: Power, saw: dict[str, Any], why: str) -> None:
    close = decided(looked(power, **saw))
    assert isinstance(close, Close)
    assert (close.outcome, why in close.sentence) == (Outcome.REFUSED, True), close.sentence
    assert close.hint.endswith("do not start a second one")


@pytest.mark.parametrize(
    ("power", "reason", "ends"),
    [
        (Power.SHUTOFF, "shutdown", True),
        (Power.CRASHED, "", True),
        (Power.SHUTOFF, "migrated", False),
        (Power.ABSENT, "", False),
        (Power.UNREACHABLE, "", False),
        (Power.RUNNING, "", False),
    ],
)
def test_a_sync_ends_at_once_where_its_vm_is_off_and_nowhere_else(power: Power, reason: str, ends: bool) -> None:
    """It may be migrated while it compares everything, which takes hours at times."""
    place = Place("hv1", DomainReading(power, reason))
    subject = cast(Subject, SimpleNamespace(name="web", find_primary=lambda: place))
    with (
        pytest.raises(ExternalError, match=r"the VM of web is .*, and sends nothing; start it")
        if ends
        else nullcontext()
    ):
        waiting._refuse_one_that_is_off(subject)


@pytest.mark.parametrize(
    ("done", "step", "why"),
    [
        (1, Step.COPY, "it waits where it is: copying it to sec2"),
        (2, Step.STOP, "little is left to copy: it takes no files any more"),
        (3, Step.LAST_COPY, "nothing arrives any more: copying the rest"),
        (4, Step.RECEIVE, "sec2 has everything: it takes the files there"),
        (5, Step.SYNC, "waiting until its primary has compared everything, and vouches for it"),
    ],
)
def test_what_comes_next(done: int, step: Step, why: str) -> None:
    assert decided(*map(well, ALL[:done])) == Run(step, why)


def test_a_stop_that_was_interrupted_is_run_again() -> None:
    interrupted = StepRecord(Step.STOP, NOW - 1)
    assert decided(*map(well, ALL[:2]), interrupted) == Run(Step.STOP, "it takes no files any more")


def test_at_the_end_it_waits_there() -> None:
    assert decided(*map(well, ALL)) == Close(Outcome.DONE, "the standby of web waits on sec2")


@pytest.mark.parametrize("number", range(2, 6))
def test_whatever_fails_from_the_stop_on_it_takes_files_again_where_it_was(number: int) -> None:
    steps = [*map(well, ALL[:number]), failed(ALL[number])]
    why = "it takes files again where it was: no space left on sec2"
    assert decided(*steps) == Run(Step.TAKE_BACK, why)
    assert goes_back_after(ALL[number])
    # Killed in the middle of that, it goes on with it, and knows the reason by its own word.
    begun = StepRecord(Step.TAKE_BACK, NOW - 1, sentence=why)
    assert decided(*steps, begun) == Run(Step.TAKE_BACK, why)
    ended = StepRecord(Step.TAKE_BACK, NOW - 1, NOW, True, proof(Step.TAKE_BACK), why)
    said = "the standby of web waits on sec1 as before: no space left on sec2"
    assert decided(*steps, ended) == Close(Outcome.TAKEN_BACK, said)


def test_one_that_something_else_has_taken_back_goes_on_with_that() -> None:
    """Its controller was killed in it; none of its steps has failed."""
    steps = (*map(well, ALL[:3]), StepRecord(Step.TAKE_BACK, NOW - 1, sentence="something else comes first"))
    wanted = Run(Step.TAKE_BACK, "it takes files again where it was: something else comes first")
    assert decided(*steps) == wanted


def test_before_the_stop_a_failure_leaves_it_where_it_is() -> None:
    assert not any(goes_back_after(step) for step in (Step.CONFIRM, Step.COPY, Step.TAKE_BACK))
