"""What an operator reads where a failover is decided on, word by word, with the way out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from test_decide import NOW, POLICY, confirm, done

from vcrecovery.core.decide import decide
from vcrecovery.core.decisions import Blocked, Close, Decision, Run, Unmet, Wait
from vcrecovery.core.episode import Episode, Outcome, Request, Step, StepRecord, Symptom
from vcrecovery.core.evidence import Failed
from vcrecovery.core.standby_end import TRIES

PORTS = ("10.0.0.1:80", "10.0.0.1:443")
RUNS: dict[str, Any] = {"power": "running", "reason": "", "summary": "hv1: running"}
BY_HAND: dict[str, Any] = {"automatic": False}
BY_WORD = "if you know that the VM is down: `vcrecovery failover web --primary-is-down web`"
AS_IT_IS = "`vcrecovery failover web --force` starts it as it is"
EITHER = "`vcrecovery standby reset web` has that one serve; `vcrecovery failover web --force` destroys it"
ENDED = "the standby of web is to serve and has ended"


def refused(sentence: str, hint: str, *, transient: bool = False) -> Close:
    return Close(Outcome.REFUSED, sentence, hint, transient)


def no_failure(sentence: str, hint: str = "") -> Close:
    return Close(Outcome.FALSE_ALARM, sentence, hint)


@pytest.mark.parametrize(
    ("saw", "words", "decision"),
    [
        # It may live elsewhere.
        (
            {"open_ports": PORTS},
            {},
            no_failure(
                "the primary of web is off on its hypervisor but 10.0.0.1:80, 10.0.0.1:443 answers: it may run "
                "elsewhere",
                f"add the hypervisor that has it to the plan, or, {BY_WORD}",
            ),
        ),
        (
            {"reason": "migrated"},
            BY_HAND,
            refused(
                "the primary of web is off on its hypervisor but it was migrated: it may run elsewhere",
                f"add the hypervisor that has it to the plan, or, {BY_WORD}",
            ),
        ),
        (
            {"power": "absent", "vanished": True, "silent": ["hv2", "hv3"]},
            {},
            refused(
                "web: the VM may have left its hypervisor for hv2 and hv3, which does not answer",
                f"look there, or, {BY_WORD}",
                transient=True,
            ),
        ),
        (
            {"reason": "migrated", "silent": ["hv2"]},
            BY_HAND,
            refused(
                "web: the VM may have left its hypervisor for hv2, which does not answer", f"look there, or, {BY_WORD}"
            ),
        ),
        (
            {"power": "absent"},
            {},
            refused("web: its hypervisor does not know the VM", f"correct the plan, or, {BY_WORD}"),
        ),
        (
            {"power": "absent", "detail": "hv1 does not know VM 6f1c"},
            {},
            refused("web: hv1 does not know VM 6f1c", f"correct the plan, or, {BY_WORD}"),
        ),
        # It lives.
        (
            RUNS,
            {**BY_HAND, "primary_is_down": True},
            refused(
                "you say that the primary of web is down, but its hypervisor says that it is running",
                "`vcrecovery failover web --force` destroys it and fails over",
            ),
        ),
        # A word for a whole host is none for a VM that has left it.
        (
            {"power": "absent"},
            {**BY_HAND, "primary_is_down": True, "of_several": True},
            refused(
                "you say that the primary of web is down, but its hypervisor answers, and does not know the VM",
                f"find out where it is; {BY_WORD}",
            ),
        ),
        # After a failover its VM may be gone for good.
        (
            {"power": "absent"},
            {**BY_HAND, "primary_is_down": True, "of_several": True, "again": True},
            Run(Step.FENCE, "the operator says that the primary is down"),
        ),
        (
            RUNS,
            {**BY_HAND, "again": True},
            refused(
                "the standby of web is to serve and does not answer, but its old primary runs (hv1: running)", EITHER
            ),
        ),
        ({**RUNS, "open_ports": PORTS, "summary": ""}, {}, no_failure("web still answers (running): no failure")),
        (
            {**RUNS, "open_ports": PORTS},
            BY_HAND,
            refused(
                "web still answers on 10.0.0.1:80, 10.0.0.1:443 (hv1: running)",
                "`vcrecovery failover web --force` destroys the VM and fails over",
            ),
        ),
        ({"serves_on": "sec2"}, {}, no_failure("web answers on sec2: no failure")),
        ({"reason": "destroyed"}, {}, no_failure("the primary of web is off on request (destroyed)")),
        (
            {"starts_by_itself": "autostart"},
            {"symptom": Symptom.HOST},
            no_failure("the hypervisor of web is back, and starts the VM automatically (autostart)"),
        ),
        # There is nothing to start, or nothing that is new enough.
        (
            {"standby_problem": "no container web"},
            {},
            refused("web has no standby to start: no container web", "fix that first"),
        ),
        (
            {"restore_problem": "web has no restore point r1", "restore_asked": "r1"},
            {**BY_HAND, "restore_point": "r1"},
            refused("web has no restore point r1", "`vcrecovery standby snapshots web` lists them"),
        ),
        (
            {"freshness": 61.0},
            {},
            refused("the standby of web is 61 s old, more than its max_staleness of 60 s", AS_IT_IS),
        ),
        (
            {"freshness": None, "freshness_detail": "no heartbeat has arrived in web yet"},
            {},
            refused("the age of the standby of web is not known: no heartbeat has arrived in web yet", AS_IT_IS),
        ),
        # Its standby is to serve, and has ended.
        (RUNS, {"again": True}, refused(f"{ENDED}, but its old primary runs (hv1: running)", EITHER)),
        (
            {"reached": PORTS},
            {"again": True},
            refused(
                f"{ENDED}, but 10.0.0.1:80, 10.0.0.1:443 answers: its old primary may run elsewhere",
                f"find out who has its address, or, {BY_WORD}",
            ),
        ),
        (
            {"power": "unreachable", "reason": ""},
            {"again": True},
            refused(
                f"{ENDED}, unseen or more than 60 s ago, and the hypervisor of its old primary does not answer: nobody "
                "knows whether that is still off",
                f"fix that, or, {BY_WORD}",
            ),
        ),
        (
            {"power": "absent", "silent": ["hv2", "hv3"]},
            {"again": True},
            refused(
                f"{ENDED}, and its old primary may be on hv2 and hv3, which does not answer",
                f"look there, or, {BY_WORD}",
            ),
        ),
        (
            {},
            {"again": True},
            Run(Step.FENCE, "its standby has ended (hv1: shutoff (crashed)): fencing the old primary again"),
        ),
        (
            {},
            {**BY_HAND, "again": True},
            Run(Step.FENCE, "its standby does not answer (hv1: shutoff (crashed)): fencing the old primary again"),
        ),
        # A port does not answer, or the guest seems to hang.
        (
            {},
            {"symptom": Symptom.SERVICE_DOWN},
            no_failure("libvirt says that the primary of web is shutoff: something else"),
        ),
        (RUNS, {"symptom": Symptom.SERVICE_DOWN}, no_failure("web answers again (hv1: running)")),
        (
            {**RUNS, "closed_ports": PORTS, "heard": 1.0, "sends": True},
            {"symptom": Symptom.SERVICE_DOWN},
            no_failure("the VM of web works: its files arrive"),
        ),
        (RUNS, {"symptom": Symptom.VM}, no_failure("libvirt says that the primary of web is running: no failure")),
        (
            RUNS,
            {"symptom": Symptom.CPU_ZERO},
            no_failure("how much CPU the primary of web uses cannot be read: no failure"),
        ),
        (
            {**RUNS, "cpu": 0.1},
            {"symptom": Symptom.CPU_ZERO},
            no_failure("the primary of web uses its CPU again (0.1 %): no failure"),
        ),
        (
            {**RUNS, "cpu": 60.0},
            {"symptom": Symptom.CPU_HIGH},
            no_failure("the primary of web uses only 60.0 % of its CPUs: no failure"),
        ),
        (
            {**RUNS, "cpu": 0.0, "heard": 1.0},
            {"symptom": Symptom.CPU_ZERO},
            no_failure("a heartbeat of web arrived after its CPU looked suspicious: no failure"),
        ),
        # It has failed.
        ({}, {}, Run(Step.FENCE, "failure confirmed (hv1: shutoff (crashed)): fencing the primary")),
        ({}, {**BY_HAND, "force": True}, Run(Step.FENCE, "forced (hv1: shutoff (crashed)): fencing the primary")),
        (
            {},
            {**BY_HAND, "primary_is_down": True},
            Run(Step.FENCE, "the operator says that the primary is down"),
        ),
        (
            {},
            {**BY_HAND, "restore_point": "r1"},
            Run(Step.CONFIRM, "asking whether there is a restore point r1"),
        ),
    ],
)
def test_what_is_read_before_a_fence(saw: dict[str, Any], words: dict[str, Any], decision: Decision) -> None:
    request = Request(**{"automatic": True, **words})
    look = confirm(**{"asked_for": request.looks_for, **saw})
    assert (
        decide(Episode(1, "web", 1, "libvirt: shutoff (crashed)", request, NOW - 5, (look,)), POLICY, NOW) == decision
    )


FENCED, STARTED, PROBED = (done(step) for step in (Step.FENCE, Step.START, Step.PROBE))
TRIED = StepRecord(Step.FENCE, NOW - 3, NOW - 2, False, Failed("LXD does not answer"))


def looked(ago: float, took: float = 1.0, **saw: Any) -> StepRecord:
    look = confirm(**saw)
    return replace(look, begun_at=NOW - ago - took, ended_at=NOW - ago)


@pytest.mark.parametrize(
    ("steps", "words", "step", "why"),
    [
        ((), {}, Step.CONFIRM, "asking for a second signal: libvirt: shutoff (crashed)"),
        ((), BY_HAND, Step.CONFIRM, "libvirt: shutoff (crashed): checking the primary first"),
        ((looked(100),), {}, Step.CONFIRM, "the signals are 100 s old: asking again"),
        ((looked(-10),), {}, Step.CONFIRM, "the clock was set back since the signals came: asking again"),
        ((looked(1, 299),), {}, Step.CONFIRM, "to look took 300 s: asking again"),
        (
            (confirm(asked_for="something else"),),
            {},
            Step.CONFIRM,
            "libvirt: shutoff (crashed): checking for that what was not looked at",
        ),
        # The fence was tried.
        (
            (confirm(), TRIED),
            {},
            Step.CONFIRM,
            "the fence is not proved yet: checking first whether the primary serves",
        ),
        (
            (confirm(), TRIED, looked(0.5, 0.5)),
            {},
            Step.FENCE,
            "not proved yet (hv1: shutoff (crashed)): fencing the primary again",
        ),
        (
            (confirm(), TRIED, looked(0.5, 0.5)),
            {**BY_HAND, "primary_is_down": True},
            Step.FENCE,
            "the operator says that the primary is down",
        ),
        (
            (confirm(), TRIED, looked(0.5, 0.5, **RUNS, open_ports=PORTS)),
            {**BY_HAND, "force": True},
            Step.FENCE,
            "the primary serves (hv1: running), but this failover is forced: fencing it",
        ),
        (
            (confirm(), FENCED, replace(TRIED, begun_at=NOW - 0.5, ended_at=NOW)),
            {},
            Step.FENCE,
            "the primary was fenced before, and may be back: fencing it again",
        ),
        (
            (confirm(), done(Step.FENCE, NOW - 61)),
            {},
            Step.FENCE,
            "the primary was fenced a while ago, and may be back: fencing it again",
        ),
        (
            (confirm(), done(Step.FENCE, NOW + 5)),
            {},
            Step.FENCE,
            "the primary was fenced before the clock was set back, and may be back: fencing it again",
        ),
        # It was fenced.
        ((confirm(), FENCED), {}, Step.START, "the primary is fenced: starting the standby"),
        (
            (confirm(restore_asked="r1", restore_age=5.0), FENCED),
            {**BY_HAND, "restore_point": "r1"},
            Step.RESTORE,
            "the standby goes back to restore point r1",
        ),
        ((confirm(), FENCED, STARTED), {}, Step.PROBE, "the standby runs: waiting for its ports"),
        (
            (confirm(), FENCED, STARTED, done(Step.PROBE, NOW - 100)),
            {},
            Step.PROBE,
            "the ports were seen open 100 s ago: looking again",
        ),
        (
            (confirm(), FENCED, STARTED, done(Step.PROBE, NOW + 5)),
            {},
            Step.PROBE,
            "the clock was set back since the ports opened: looking again",
        ),
        # Before a further try of the switch they are looked at again, however short ago it was.
        *(
            (
                (confirm(), FENCED, STARTED, done(Step.PROBE, NOW - ago), StepRecord(Step.SWITCH, NOW)),
                {},
                Step.PROBE,
                "the ports were seen open 0 s ago: looking again",
            )
            for ago in (0.0, 0.4)
        ),
        ((confirm(), FENCED, STARTED, PROBED), {}, Step.SWITCH, "every port answers: switching DNS"),
        (
            (confirm(), FENCED, STARTED, PROBED, done(Step.SWITCH)),
            {},
            Step.VERIFY,
            "DNS has changed: asking every authoritative server",
        ),
    ],
)
def test_what_is_read_of_each_step(steps: tuple[StepRecord, ...], words: dict[str, Any], step: Step, why: str) -> None:
    assert decide(of(steps, **words), POLICY, NOW) == Run(step, why)


def of(steps: tuple[StepRecord, ...], **words: Any) -> Episode:
    request = Request(**{"automatic": True, **words})
    return Episode(1, "web", 1, "libvirt: shutoff (crashed)", request, NOW - 5, steps)


def test_what_a_start_waits_for() -> None:
    fenced = of((confirm(), FENCED))
    waits = decide(fenced, POLICY, NOW, Wait("waiting for db, which it needs"))
    assert waits == Wait("the primary is fenced; waiting for db, which it needs")
    unmet = decide(fenced, POLICY, NOW, Unmet("needs db, which is not up", "mend db"))
    assert unmet == Blocked(Step.START, "needs db, which is not up", "mend db", unmet=True)
    powered = decide(fenced, replace(POLICY, on_demand=True), NOW)
    assert powered == Run(Step.POWER_ON, "the primary is fenced: powering its secondary on")


def test_what_was_a_switchover_is_not_closed() -> None:
    """Its VM is on its way down: the operator goes on, when what was found is mended."""
    steps = (done(Step.SHUTDOWN), confirm(standby_problem="no container web"))
    wanted = Blocked(Step.CONFIRM, "web has no standby to start: no container web", "fix that first")
    assert decide(of(steps, **BY_HAND), POLICY, NOW) == wanted


def test_what_is_read_at_the_end() -> None:
    steps = (confirm(), FENCED, STARTED, PROBED)
    without = decide(of(steps), replace(POLICY, has_dns=False), NOW)
    assert without == Close(Outcome.DONE, "web is served by its standby; no DNS name follows it")
    ended = of((*steps, done(Step.SWITCH), done(Step.VERIFY)))
    assert decide(ended, POLICY, NOW) == Close(Outcome.DONE, "web is served by its standby")


def test_one_that_serves_elsewhere_after_all_is_left_there() -> None:
    words = {"again": True, "to": "sec3"}
    asked_for = of((), **words).request.looks_for
    steps = (confirm(asked_for=asked_for), TRIED, looked(0.5, 0.5, asked_for=asked_for, serves_on="sec2"))
    assert decide(of(steps, **words), POLICY, NOW) == Close(
        Outcome.WITHDRAWN,
        "web serves on sec2 after all, and its fence was not proved",
        "`vcrecovery move web --to sec3` moves it, and loses nothing",
    )
    ended = (steps[0], FENCED, STARTED, PROBED, done(Step.SWITCH), done(Step.VERIFY))
    assert decide(of(ended, **words), POLICY, NOW) == Close(Outcome.DONE, "web is served by its standby on sec3")


def failed(step: Step, why: str) -> StepRecord:
    return StepRecord(step, NOW - 2, NOW - 1, False, Failed(why))


def test_one_that_does_not_come_up_again_is_given_up_after_some_tries() -> None:
    tries = [failed(step, f"no {number}") for number, step in enumerate((Step.START, Step.PROBE) * TRIES)]
    before = decide(of((confirm(), FENCED, *tries[: TRIES - 1]), again=True), POLICY, NOW)
    assert isinstance(before, Run)
    last = tries[TRIES - 1]
    said = f"given up after {TRIES} tries: no {TRIES - 1}"
    hint = "find out why, then `vcrecovery failover web`"
    given_up = Blocked(last.step, said, hint, for_good=True)
    assert decide(of((confirm(), FENCED, *tries[:TRIES]), again=True), POLICY, NOW) == given_up
    # Other steps may fail as often as they like, and an operator may try once more.
    others = [failed(Step.FENCE, "no")] * TRIES
    assert isinstance(decide(of((confirm(), *others, FENCED), again=True), POLICY, NOW), Run)
    assert isinstance(decide(of((confirm(), FENCED, *tries), **BY_HAND, again=True), POLICY, NOW), Run)
    assert isinstance(decide(of((confirm(), FENCED, *tries)), POLICY, NOW), Run)


HOST, UP, HIGH = {"symptom": Symptom.HOST}, {"again": True}, {"symptom": Symptom.CPU_HIGH}
LOST: dict[str, Any] = {"reason": "", "silent": ["hv2"]}
CLOSED: dict[str, Any] = {**RUNS, "closed_ports": PORTS, "heard": 1.0, "sends": False}
DISK_FULL: dict[str, Any] = {"power": "paused", "reason": "I/O error"}


@pytest.mark.parametrize(
    ("saw", "words", "fenced"),
    [
        # Off without a reason when its host is back: it may have moved to one that does not answer.
        (LOST, HOST, False),
        (LOST, {"symptom": Symptom.VM}, True),
        (LOST, {**BY_HAND, **HOST}, True),
        ({"silent": ["hv2"]}, HOST, True),
        ({"silent": ["hv2"]}, UP, True),
        ({"reason": "migrated", "silent": ["hv2"]}, UP, False),
        # A port is closed, and the VM says why, or says that all is well.
        ({**CLOSED, "units": {"nginx.service": "failed"}}, {"symptom": Symptom.SERVICE_DOWN}, True),
        ({**CLOSED, "units": {}}, {"symptom": Symptom.SERVICE_DOWN}, False),
        # It stands still: by its own disk, or not at all.
        (DISK_FULL, {"symptom": Symptom.STALLED}, True),
        (DISK_FULL, {"symptom": Symptom.CPU_ZERO}, False),
        (RUNS, {"symptom": Symptom.STALLED}, False),
        # Up to the limit.
        ({"freshness": 60.0}, {}, True),
        ({"freshness": 60.1}, {}, False),
        ({**RUNS, "cpu": 95.0}, HIGH, True),
        ({**RUNS, "cpu": 94.9}, HIGH, False),
        ({**RUNS, "cpu": 0.0, "heard": 60.0}, {"symptom": Symptom.CPU_ZERO}, True),
        ({**RUNS, "cpu": 0.0, "heard": 59.9}, {"symptom": Symptom.CPU_ZERO}, False),
    ],
)
def test_what_is_fenced_and_what_is_not(saw: dict[str, Any], words: dict[str, Any], fenced: bool) -> None:
    look = confirm(**{"asked_for": of((), **words).request.looks_for, **saw})
    decision = decide(of((look,), **words), POLICY, NOW)
    assert (isinstance(decision, Run) and decision.step is Step.FENCE) is fenced


def test_one_that_is_forced_and_does_not_serve_is_not_said_to() -> None:
    steps = (confirm(), TRIED, looked(0.5, 0.5, **RUNS))
    why = "not proved yet (hv1: running): fencing the primary again"
    assert decide(of(steps, **BY_HAND, force=True), POLICY, NOW) == Run(Step.FENCE, why)


@pytest.mark.parametrize(
    ("looks", "step"),
    [
        ((looked(1, 24),), Step.FENCE),
        ((looked(1, 24.1),), Step.CONFIRM),
        # Where answers are that slow every time, to ask again makes nothing better.
        ((looked(400, 100), looked(1, 200)), Step.FENCE),
        ((looked(400, 100), looked(1, 201)), Step.CONFIRM),
    ],
)
def test_how_long_a_look_may_take(looks: tuple[StepRecord, ...], step: Step) -> None:
    decision = decide(of(looks), POLICY, NOW)
    assert isinstance(decision, Run)
    assert decision.step is step
