"""What an operator reads where a switchover or a failback is decided on, word by word, and where each bound lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from test_decide import CONFIRMED, NOW, POLICY, confirm, done

from evidence_cases import proof
from vcrecovery.core import planned
from vcrecovery.core.decide import decide
from vcrecovery.core.decisions import GO, Close, Decision, Readiness, Run, Unmet
from vcrecovery.core.episode import Episode, Outcome, Request, Step, StepRecord
from vcrecovery.core.evidence import Failed, Kept
from vcrecovery.core.failback import COMMIT_AFTER, goes_back_after, keeper_of, kept_until
from vcrecovery.core.planned import GOES_ON_WITHIN

PORTS = ("10.0.0.1:80", "10.0.0.1:443")
RUNS: dict[str, Any] = {"power": "running", "reason": "", "host": "hv1"}


def looked_for(verb: str, ended_at: float = NOW - 3, **saw: Any) -> StepRecord:
    found = {**CONFIRMED, "asked_for": verb, **saw}
    return StepRecord(Step.CONFIRM, ended_at, ended_at, True, proof(Step.CONFIRM, **found))


def begun(step: Step, at: float = NOW - 1) -> StepRecord:
    return StepRecord(step, at)


def failed(step: Step, *, refused: bool = False) -> StepRecord:
    return StepRecord(step, NOW - 1, NOW, False, Failed(f"{step} went wrong", refused=refused))


def each(*steps: Step) -> tuple[StepRecord, ...]:
    return tuple(map(done, steps))


# -- a failback --------------------------------------------------------------------------------------------------------


def going_back(*steps: StepRecord, **words: Any) -> Episode:
    return Episode(1, "web", 2, "requested by root", Request(back=True, **words), NOW - 99, steps)


LOOKED = looked_for("failback")
STOPPED = (LOOKED, *each(Step.BOOT, Step.COPY, Step.STOP))
HANDED_OVER = (*STOPPED, *each(Step.LAST_COPY, Step.HAND_OVER))
SWITCHED = (*HANDED_OVER, *each(Step.PROBE, Step.SWITCH))
CHECK = Run(Step.CONFIRM, "requested by root: checking everything first")
BOOT = Run(Step.BOOT, "the standby serves on: the VM is to run without serving")
COPY = Run(Step.COPY, "the VM starts no service: it fetches what the standby has written")


@pytest.mark.parametrize(
    ("steps", "decision"),
    [
        ((), CHECK),
        ((confirm(),), CHECK),
        ((looked_for("failback", NOW - 15.1),), CHECK),
        ((looked_for("failback", NOW - 15),), BOOT),
        ((LOOKED, failed(Step.BOOT)), BOOT),
        ((LOOKED, done(Step.BOOT, NOW - 60.1)), BOOT),
        ((LOOKED, done(Step.BOOT, NOW - 60)), COPY),
        ((LOOKED, *each(Step.BOOT), failed(Step.COPY)), BOOT),
        ((LOOKED, *each(Step.BOOT, Step.COPY)), Run(Step.STOP, "little is left to fetch: stopping the standby")),
        ((*STOPPED[:-1], begun(Step.STOP)), Run(Step.STOP, "stopping the standby")),
        (STOPPED, Run(Step.LAST_COPY, "the standby has ended: the VM fetches the rest")),
        (HANDED_OVER[:-1], Run(Step.HAND_OVER, "the VM has everything: it takes over")),
        ((*HANDED_OVER[:-1], failed(Step.HAND_OVER)), Run(Step.HAND_OVER, "the VM has everything: it takes over")),
        (HANDED_OVER, Run(Step.PROBE, "the VM takes over: waiting for its ports")),
        (
            (*HANDED_OVER, done(Step.PROBE, NOW - 15.1)),
            Run(Step.PROBE, "the ports were seen open before: looking again"),
        ),
        (
            (*HANDED_OVER, done(Step.PROBE, NOW - 15)),
            Run(Step.SWITCH, "every port answers: switching DNS back"),
        ),
        (SWITCHED, Run(Step.VERIFY, "DNS has changed: asking every authoritative server")),
        ((*SWITCHED, *each(Step.VERIFY)), Run(Step.KEEP, "the VM serves: keeping what its standby was")),
        ((*SWITCHED, *each(Step.VERIFY, Step.KEEP)), Close(Outcome.DONE, "web is served by its VM")),
        # A name server may be away for days, and its standby takes no files until that is kept.
        (
            (*SWITCHED, failed(Step.VERIFY)),
            Run(Step.KEEP, "the VM serves, and not every DNS server has it yet: keeping what its standby was"),
        ),
        (
            (*SWITCHED, failed(Step.VERIFY), *each(Step.KEEP)),
            Run(Step.PROBE, "not every DNS server has it yet: looking whether the ports still answer"),
        ),
        # Before the VM was told to serve, whatever fails has the standby serve again.
        ((*STOPPED[:-1], failed(Step.STOP)), Run(Step.START, "the standby serves again: stop went wrong")),
        ((*STOPPED, failed(Step.LAST_COPY)), Run(Step.START, "the standby serves again: last copy went wrong")),
        (
            (*HANDED_OVER[:-1], failed(Step.HAND_OVER, refused=True)),
            Run(Step.START, "the standby serves again: hand over went wrong"),
        ),
        (
            (*STOPPED, failed(Step.LAST_COPY), *each(Step.START)),
            Close(Outcome.TAKEN_BACK, "web is served by its standby again: last copy went wrong"),
        ),
    ],
)
def test_what_comes_next_in_a_failback(steps: tuple[StepRecord, ...], decision: Decision) -> None:
    assert decide(going_back(*steps), POLICY, NOW) == decision


def test_a_failback_without_names_keeps_what_its_standby_was_after_its_ports() -> None:
    steps = (*HANDED_OVER, done(Step.PROBE, NOW - 99))
    wanted = Run(Step.KEEP, "the VM serves: keeping what its standby was")
    assert decide(going_back(*steps), replace(POLICY, has_dns=False), NOW) == wanted


@pytest.mark.parametrize(
    ("saw", "said"),
    [
        ({**RUNS, "also_on": ["hv2", "hv3"]}, "its VM is also on hv2 and hv3"),
        ({"power": "absent", "host": "hv1"}, "its VM is absent on hv1"),
        ({"power": "unreachable", "detail": "hv1 does not answer"}, "hv1 does not answer"),
        ({"reason": "migrated", "host": "hv1"}, "its VM is shutoff on hv1"),
        (
            {**RUNS, "open_ports": PORTS},
            "its VM answers on 10.0.0.1:80, 10.0.0.1:443: it may serve too; shut it down",
        ),
        ({"standby_problem": "no container web"}, "no container web"),
        ({"problems": ["its disk is full", "no room"]}, "its disk is full; no room"),
        (
            {"power": "absent", "host": "hv1", "standby_problem": "no container web", "problems": ["no room"]},
            "its VM is absent on hv1; no container web; no room",
        ),
    ],
)
def test_why_a_failback_is_refused(saw: dict[str, Any], said: str) -> None:
    wanted = Close(Outcome.REFUSED, f"web does not go back to its VM: {said}", "fix that first")
    assert decide(going_back(looked_for("failback", **saw)), POLICY, NOW) == wanted


@pytest.mark.parametrize(
    ("saw", "tried", "words"),
    [
        (RUNS, (), {}),
        ({**RUNS, "open_ports": PORTS[:1], "closed_ports": PORTS[1:]}, (), {}),
        ({"open_ports": PORTS}, (), {}),
        ({**RUNS, "open_ports": PORTS}, (), {"rebuilt": True}),
        ({**RUNS, "open_ports": PORTS}, (failed(Step.BOOT),), {}),
    ],
)
def test_a_vm_that_does_not_serve_is_booted(
    saw: dict[str, Any], tried: Sequence[StepRecord], words: dict[str, Any]
) -> None:
    assert decide(going_back(looked_for("failback", **saw), *tried, **words), POLICY, NOW) == BOOT


def test_only_what_has_done_nothing_to_the_vm_leads_back_to_the_standby() -> None:
    back = {Step.STOP, Step.LAST_COPY}
    assert {step for step in Step if goes_back_after(step, refused=False)} == back
    assert {step for step in Step if goes_back_after(step, refused=True)} == {*back, Step.HAND_OVER}


def test_what_is_kept_and_until_when() -> None:
    def keeps(restore_point: str, problem: str = "") -> StepRecord:
        return StepRecord(Step.KEEP, NOW, NOW, True, Kept("x", restore_point, problem))

    under_way = going_back(keeps("before"))
    ended, without = replace(under_way, closed_at=NOW), replace(going_back(keeps("", "no room")), closed_at=NOW)
    assert [kept_until(one) for one in (going_back(), under_way, without)] == [None, None, None]
    assert kept_until(ended) == NOW + COMMIT_AFTER
    assert kept_until(replace(ended, request=Request(back=True, commit_after=0.0))) == NOW
    assert keeper_of("before", [going_back(), without, ended]) is ended
    assert keeper_of("after", [going_back(), without, ended]) is None


# -- a switchover ------------------------------------------------------------------------------------------------------


def switching(*steps: StepRecord) -> Episode:
    return Episode(1, "web", 2, "requested by root", Request(planned=True), NOW - 99, steps)


LIVE: dict[str, Any] = {**RUNS, "boot": "0b5ef2a8", "heard": 1.0}
SEEN = looked_for("switchover", **LIVE)
ITS_LIMIT = "its standby is 61 s old, more than its max_staleness of 60 s"


@pytest.mark.parametrize(
    ("saw", "said"),
    [
        ({"power": "shutoff", "reason": "crashed"}, "its VM has to run to be shut down, and is shutoff (crashed)"),
        (
            {"power": "unreachable", "detail": "hv1 does not answer"},
            "its VM cannot be asked to shut down: hv1 does not answer",
        ),
        ({"power": "paused"}, "its VM has to run to be shut down, and is paused"),
        ({"also_on": ["hv2"]}, "its VM is also on hv2"),
        ({"standby_problem": "no container web"}, "no container web"),
        (
            {"freshness": None, "freshness_detail": "it has no heartbeat"},
            "the age of its standby is not known: it has no heartbeat",
        ),
        ({"freshness": 61.0}, ITS_LIMIT),
        ({"boot": None}, "its VM would not send its last files at a shutdown: run the role `primary`"),
        ({"final": True}, "its VM has sent no heartbeat since it booted"),
        ({"heard": 61.0}, "its VM has sent no heartbeat for 61 s"),
        ({"problems": ["a", "b"]}, "a; b"),
        (
            {"power": "paused", "freshness": 61.0, "problems": ["a"]},
            f"its VM has to run to be shut down, and is paused; {ITS_LIMIT}; a",
        ),
    ],
)
def test_why_a_switchover_is_refused(saw: dict[str, Any], said: str) -> None:
    wanted = Close(Outcome.REFUSED, f"web is not switched over: {said}", "fix that first")
    assert decide(switching(looked_for("switchover", **{**LIVE, **saw})), POLICY, NOW) == wanted


@pytest.mark.parametrize("saw", [{}, {"freshness": 60.0}, {"heard": 60.0}, {"heard": None}])
def test_up_to_its_limits_the_vm_is_shut_down(saw: dict[str, Any]) -> None:
    wanted = Run(Step.SHUTDOWN, "requested by root: shutting the VM down")
    assert decide(switching(looked_for("switchover", **{**LIVE, **saw})), POLICY, NOW) == wanted


OFF = (SEEN, *each(Step.SHUTDOWN))
COMPLETE = (*OFF, *each(Step.LAST_FILES))
INTERRUPTED = "nobody knows what its VM has done since"


def taken_back(why: str) -> Run:
    return Run(Step.TAKE_BACK, f"the VM takes over again: {why}")


@pytest.mark.parametrize(
    ("steps", "readiness", "decision"),
    [
        ((SEEN, begun(Step.SHUTDOWN)), GO, Run(Step.SHUTDOWN, "requested by root: shutting the VM down")),
        (OFF, GO, Run(Step.LAST_FILES, "the VM is off: checking that its last files have arrived")),
        (COMPLETE, GO, Run(Step.FENCE, "the standby is complete: making sure that the VM stays off")),
        ((*COMPLETE, *each(Step.FENCE)), GO, Run(Step.START, "the primary is fenced: starting the standby")),
        ((SEEN, failed(Step.SHUTDOWN)), GO, taken_back("shutdown went wrong")),
        ((*OFF, failed(Step.LAST_FILES)), GO, taken_back("last files went wrong")),
        (COMPLETE, Unmet("db is down", "mend it"), taken_back("db is down")),
        (
            (*OFF, StepRecord(Step.TAKE_BACK, NOW - 1, sentence="the VM takes over again: x")),
            GO,
            taken_back("x"),
        ),
        (
            (*OFF, StepRecord(Step.TAKE_BACK, NOW, NOW, True, None, "the VM takes over again: x")),
            GO,
            Close(Outcome.TAKEN_BACK, "web is on its VM again: x"),
        ),
        # Later, or by a clock that was set back, the VM may have run again.
        ((SEEN, begun(Step.SHUTDOWN, NOW)), GO, Run(Step.SHUTDOWN, "requested by root: shutting the VM down")),
        (
            (SEEN, begun(Step.SHUTDOWN, NOW - GOES_ON_WITHIN)),
            GO,
            Run(Step.SHUTDOWN, "requested by root: shutting the VM down"),
        ),
        (
            (SEEN, begun(Step.SHUTDOWN, NOW - GOES_ON_WITHIN - 1)),
            GO,
            taken_back(f"it was interrupted 1201 s ago: {INTERRUPTED}"),
        ),
        ((SEEN, begun(Step.SHUTDOWN, NOW + 5)), GO, taken_back(f"it was interrupted 5 s ago: {INTERRUPTED}")),
    ],
)
def test_what_comes_next_in_a_switchover(
    steps: tuple[StepRecord, ...], readiness: Readiness, decision: Decision
) -> None:
    assert decide(switching(*steps), POLICY, NOW, readiness) == decision


def test_what_leads_a_switchover_back_to_its_vm() -> None:
    back = {Step.SHUTDOWN, Step.LAST_FILES, Step.FENCE, Step.POWER_ON, Step.START}
    assert {step for step in Step if planned.goes_back_after(step, switching())} == back
    assert not any(planned.goes_back_after(step, going_back()) for step in Step)
