"""The decision core, promise by promise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from evidence_cases import proof
from vcrecovery.core.decide import decide
from vcrecovery.core.decisions import Blocked, Close, Run
from vcrecovery.core.episode import Episode, Outcome, Request, Step, StepRecord, Symptom
from vcrecovery.core.evidence import Failed, Restored
from vcrecovery.core.policy import Policy

CONFIRMED: dict[str, Any] = {
    "power": "shutoff",
    "reason": "crashed",
    "open_ports": [],
    "freshness": 3.0,
    "summary": "hv1: shutoff (crashed)",
}
POLICY = Policy(max_staleness=60.0)
NOW = 1000.0
AWAY: dict[str, Any] = {"power": "unreachable", "reason": "", "detail": "hv1 does not answer", "fence_command": True}
OTHERS = ["shop (10.0.0.2:443)"]


def episode(
    *steps: StepRecord,
    automatic: bool = True,
    force: bool = False,
    word: bool = False,
    symptom: Symptom = Symptom.NONE,
) -> Episode:
    request = Request(automatic=automatic, force=force, primary_is_down=word, symptom=symptom)
    return Episode(1, "web", 1, "libvirt: shutoff (crashed)", request, NOW - 5, steps)


def confirm(**changes: Any) -> StepRecord:
    return StepRecord(Step.CONFIRM, NOW - 4, NOW - 3, True, proof(Step.CONFIRM, **{**CONFIRMED, **changes}))


def done(step: Step, ended_at: float = NOW - 1) -> StepRecord:
    return StepRecord(step, ended_at - 1, ended_at, True)


def test_the_steps_come_in_the_order_of_the_promises() -> None:
    records: list[StepRecord] = []
    order = []
    while isinstance(decision := decide(episode(*records), POLICY, NOW), Run):
        order.append(decision.step)
        assert len(order) < 20, order
        records.append(confirm() if decision.step is Step.CONFIRM else done(decision.step))
    assert order == [Step.CONFIRM, Step.FENCE, Step.START, Step.PROBE, Step.SWITCH, Step.VERIFY]
    assert isinstance(decision, Close)
    assert decision.outcome is Outcome.DONE


@pytest.mark.parametrize(
    ("evidence", "outcome", "said"),
    [
        ({"open_ports": ["10.0.0.1:80"]}, Outcome.FALSE_ALARM, "answers: it may run elsewhere"),
        ({"reached": ["10.0.0.1:80 http /"]}, Outcome.FALSE_ALARM, "10.0.0.1:80 http / answers: it may run elsewhere"),
        ({"power": "running"}, Outcome.FALSE_ALARM, "running"),
        ({"power": "unreachable", "detail": "hypervisor hv1 does not answer"}, Outcome.REFUSED, "cannot be fenced"),
        ({"power": "absent", "detail": "hv1 does not know VM"}, Outcome.REFUSED, "does not know VM"),
        ({"reason": "destroyed"}, Outcome.FALSE_ALARM, "off on request"),
        ({"reason": "migrated"}, Outcome.FALSE_ALARM, "may run elsewhere"),
        ({"standby_problem": "no container web"}, Outcome.REFUSED, "no standby to start: no container web"),
        ({"freshness": 61.0}, Outcome.REFUSED, "61 s old"),
        ({"freshness": None, "freshness_detail": "no heartbeat"}, Outcome.REFUSED, "not known"),
    ],
)
def test_what_stops_an_automatic_failover(evidence: dict[str, Any], outcome: Outcome, said: str) -> None:
    decision = decide(episode(confirm(**evidence)), POLICY, NOW)
    assert isinstance(decision, Close)
    assert decision.outcome is outcome
    assert said in decision.sentence


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        ({"power": "running", "open_ports": ["10.0.0.1:80"]}, "still answers on 10.0.0.1:80"),
        ({"freshness": 61.0}, "61 s old"),
    ],
)
def test_an_operator_is_refused_with_a_way_out_and_force_overrides(evidence: dict[str, Any], said: str) -> None:
    decision = decide(episode(confirm(**evidence), automatic=False), POLICY, NOW)
    assert isinstance(decision, Close)
    assert decision.outcome is Outcome.REFUSED
    assert said in decision.sentence
    assert "--force" in decision.hint
    forced = decide(episode(confirm(**evidence), automatic=False, force=True), POLICY, NOW)
    assert isinstance(forced, Run)
    assert forced.step is Step.FENCE


def again(step: StepRecord, *, force: bool = False) -> Episode:
    opened = episode(step, automatic=False)
    return replace(opened, request=replace(opened.request, again=True, force=force))


@pytest.mark.parametrize(
    "evidence",
    [
        {},
        # Our own fence; the files are as old as the failover, but have been served since.
        {"reason": "destroyed", "freshness": 9e6},
        {"freshness": None},
        {"power": "absent", "reason": ""},
        {"power": "paused"},
    ],
)
def test_a_standby_that_serves_no_more_is_brought_up_behind_a_new_fence(evidence: dict[str, Any]) -> None:
    decision = decide(again(confirm(**evidence)), POLICY, NOW)
    assert isinstance(decision, Run)
    assert decision.step is Step.FENCE


@pytest.mark.parametrize(
    ("evidence", "said", "hint"),
    [
        ({"power": "running"}, "its old primary runs", "standby reset web"),
        ({"power": "running", "open_ports": ["10.0.0.1:80"]}, "its old primary runs", "failover web --force"),
        ({"power": "unreachable"}, "cannot be fenced", "--primary-is-down web"),
        ({"reached": ["10.0.0.1:80"]}, "may run elsewhere", "--primary-is-down web"),
        ({"power": "absent", "silent": ["hv2"]}, "may have left its hypervisor for hv2", "--primary-is-down web"),
        ({"standby_problem": "no container web"}, "no standby to start", "fix that"),
    ],
)
def test_it_is_not_while_the_old_primary_may_serve(evidence: dict[str, Any], said: str, hint: str) -> None:
    decision = decide(again(confirm(**evidence)), POLICY, NOW)
    assert isinstance(decision, Close)
    assert decision.outcome is Outcome.REFUSED
    assert said in decision.sentence
    assert hint in decision.hint


def test_by_force_the_old_primary_is_destroyed_for_it() -> None:
    decision = decide(again(confirm(power="running", open_ports=["10.0.0.1:80"]), force=True), POLICY, NOW)
    assert isinstance(decision, Run)
    assert decision.step is Step.FENCE


def test_an_operator_may_fail_over_a_primary_that_hangs() -> None:
    decision = decide(episode(confirm(power="running"), automatic=False), POLICY, NOW)
    assert isinstance(decision, Run)
    assert decision.step is Step.FENCE


def test_force_does_not_replace_a_fence() -> None:
    decision = decide(episode(confirm(power="unreachable"), automatic=False, force=True), POLICY, NOW)
    assert isinstance(decision, Close)
    assert "--primary-is-down web" in decision.hint


def test_the_operators_word_replaces_the_fence_of_a_silent_hypervisor_but_not_a_running_vm() -> None:
    silent = decide(episode(confirm(power="unreachable"), automatic=False, word=True), POLICY, NOW)
    assert isinstance(silent, Run)
    running = decide(episode(confirm(power="running"), automatic=False, word=True), POLICY, NOW)
    assert isinstance(running, Close)
    assert running.outcome is Outcome.REFUSED


# -- a fence that was tried and is not proved ------------------------------------------------------------------

NOT_PROVED = StepRecord(Step.FENCE, NOW - 3, NOW - 2, False, Failed("no route to the BMC"))
SERVES: dict[str, Any] = {"power": "running", "reason": "", "open_ports": ["10.0.0.1:80"]}


def looked(ended_at: float = NOW - 1, **changes: Any) -> StepRecord:
    """What was seen after that."""
    return StepRecord(Step.CONFIRM, ended_at, ended_at, True, proof(Step.CONFIRM, **{**CONFIRMED, **changes}))


def tried(*since: StepRecord, **words: Any) -> Episode:
    return episode(confirm(power="unreachable", reason="", fence_command=True), NOT_PROVED, *since, **words)


@pytest.mark.parametrize("words", [{}, {"automatic": False}, {"force": True}, {"word": True, "automatic": False}])
@pytest.mark.parametrize("since", [(), (looked(NOW - 16),), (looked(NOW + 3000),), (looked(), NOT_PROVED)])
def test_before_each_further_try_somebody_looks_again(since: tuple[StepRecord, ...], words: dict[str, Any]) -> None:
    decision = decide(tried(*since, **words), POLICY, NOW)
    assert isinstance(decision, Run)
    assert decision.step is Step.CONFIRM


@pytest.mark.parametrize("automatic", [True, False])
@pytest.mark.parametrize(("summary", "said"), [("hv1: running; 10.0.0.1:80 is open",) * 2, ("", "running")])
def test_a_primary_that_is_seen_to_serve_is_not_fenced_again(automatic: bool, summary: str, said: str) -> None:
    decision = decide(tried(looked(**SERVES, summary=summary), automatic=automatic), POLICY, NOW)
    assert isinstance(decision, Close)
    assert decision.outcome is Outcome.WITHDRAWN
    assert decision.sentence == f"the primary of web serves ({said}); its fence was never proved"
    assert ("see why the fence did not work" if automatic else "--force") in decision.hint


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        ({"freshness": 10_000.0}, {}),
        ({"standby_problem": "LXD does not answer"}, {}),
        ({"reason": "destroyed"}, {}),
        ({"power": "paused"}, {}),
        ({"power": "running"}, {"automatic": False, "force": True}),
        ({"power": "absent"}, {}),
        (AWAY, {}),
        (SERVES, {"automatic": False, "force": True}),
        ({**AWAY, "neighbours": OTHERS}, {"automatic": False, "force": True}),
        ({**AWAY, "open_ports": ["10.0.0.1:80"]}, {"automatic": False, "word": True}),
    ],
)
def test_without_both_signals_for_the_primary_it_is_fenced_again(seen: dict[str, Any], words: dict[str, Any]) -> None:
    decision = decide(tried(looked(**{"reason": "", **seen}), **words), POLICY, NOW)
    assert isinstance(decision, Run)
    assert decision.step is Step.FENCE


RUNS: dict[str, Any] = {"power": "running", "reason": "", "open_ports": []}


@pytest.mark.parametrize(
    ("earlier", "is_fenced"),
    [
        ([], False),
        ([looked(NOW - 10, **RUNS)], False),
        ([looked(NOW - 15.5, **RUNS)], False),
        ([looked(NOW - 16, **RUNS)], True),
        ([looked(NOW - 20, **RUNS)], True),
        ([looked(NOW - 20, **RUNS), looked(NOW - 10, **RUNS)], True),
        ([looked(NOW - 20, **RUNS, reached=["10.0.0.1:80 http /"])], True),
        # It was cut off once more in between.
        ([looked(NOW - 20, **RUNS), looked(NOW - 10, **AWAY)], False),
        # A clock that was set back a little, and a lot.
        ([looked(NOW + 5, **RUNS)], False),
        ([looked(NOW + 3000, **RUNS)], True),
    ],
)
@pytest.mark.parametrize("automatic", [True, False])
def test_behind_a_network_that_comes_back_its_ports_get_their_time(
    earlier: list[StepRecord], is_fenced: bool, automatic: bool
) -> None:
    decision = decide(tried(*earlier, looked(**RUNS), automatic=automatic), POLICY, NOW)
    if is_fenced:
        assert isinstance(decision, Run)
        assert decision.step is Step.FENCE
    else:
        assert isinstance(decision, Blocked)
        assert "no port answers yet; it is fenced when none has for 15 s" in decision.sentence


def test_one_whose_hypervisor_was_never_away_gets_no_time() -> None:
    """Nothing that comes back piece by piece lies between: it was seen to hang."""
    decision = decide(episode(confirm(power="running"), NOT_PROVED, looked(**RUNS)), POLICY, NOW)
    assert isinstance(decision, Run)
    assert decision.step is Step.FENCE


def test_where_a_container_is_kept_up_neighbours_are_in_no_danger() -> None:
    """The fence powers no hypervisor off for it."""
    steps = (confirm(**AWAY), NOT_PROVED, looked(**AWAY, neighbours=OTHERS))
    again = replace(episode(*steps), request=Request(automatic=True, again=True))
    decision = decide(again, POLICY, NOW)
    assert isinstance(decision, Run)
    assert decision.step is Step.FENCE


def test_force_says_that_what_it_ends_serves() -> None:
    decision = decide(tried(looked(**SERVES), automatic=False, force=True), POLICY, NOW)
    assert isinstance(decision, Run)
    assert "the primary serves" in decision.sentence


@pytest.mark.parametrize(
    ("seen", "words", "said"),
    [
        ({**AWAY, "open_ports": ["10.0.0.1:80"]}, {}, "still answers on 10.0.0.1:80"),
        ({**AWAY, "reached": ["10.0.0.1:80 http /"]}, {}, "still answers on 10.0.0.1:80 http /"),
        ({**AWAY, "open_ports": ["10.0.0.1:80"]}, {"automatic": False}, "still answers on 10.0.0.1:80"),
        ({**AWAY, "neighbours": OTHERS}, {}, "shop (10.0.0.2:443)"),
        (
            {"open_ports": ["10.0.0.1:80"]},
            {},
            "shutoff on its hypervisor but 10.0.0.1:80 answers: it may run elsewhere",
        ),
        ({"open_ports": ["10.0.0.1:80"]}, {"force": True}, "it may run elsewhere"),
        ({"power": "absent", "open_ports": ["10.0.0.1:80"]}, {}, "it may run elsewhere"),
        ({"power": "paused", "open_ports": ["10.0.0.1:80"]}, {}, "it may run elsewhere"),
        ({"reason": "migrated"}, {}, "shutoff on its hypervisor but it was migrated: it may run elsewhere"),
    ],
)
def test_signals_that_contradict_each_other_are_left_to_a_later_call(
    seen: dict[str, Any], words: dict[str, Any], said: str
) -> None:
    decision = decide(tried(looked(**{"reason": "", **seen}), **words), POLICY, NOW)
    assert isinstance(decision, Blocked)
    assert decision.step is Step.FENCE
    assert said in decision.sentence
    assert decision.hint


@pytest.mark.parametrize(("command", "offers"), [(True, True), (False, False)])
def test_force_is_offered_where_it_can_power_the_hypervisor_off(command: bool, offers: bool) -> None:
    decision = decide(tried(looked(**{**AWAY, "fence_command": command, "open_ports": ["10.0.0.1:80"]})), POLICY, NOW)
    assert isinstance(decision, Blocked)
    assert decision.hint.startswith("fix libvirt there")
    assert ("`vcrecovery failover web --force` powers the hypervisor off" in decision.hint) is offers


def test_the_operators_word_does_not_outlive_a_hypervisor_that_contradicts_it() -> None:
    """Kept, it would start the standby the next time that the hypervisor is silent."""
    decision = decide(tried(looked(power="running"), automatic=False, word=True), POLICY, NOW)
    assert isinstance(decision, Close)
    assert decision.outcome is Outcome.WITHDRAWN
    assert "you say that the primary of web is down" in decision.sentence


def test_once_the_fence_was_proved_there_is_no_way_back() -> None:
    """The standby had a right to start; that the primary was started since is nobody's failover to withdraw."""
    steps = (confirm(), done(Step.FENCE, NOW - 100), NOT_PROVED, looked(**SERVES))
    decision = decide(episode(*steps), POLICY, NOW)
    assert isinstance(decision, Run)
    assert decision.step is Step.FENCE


def test_an_end_that_our_own_fence_may_have_led_to_is_nobodys_wish() -> None:
    late = decide(episode(confirm(reason="destroyed"), symptom=Symptom.LATE_FENCE), POLICY, NOW)
    assert isinstance(late, Run)
    assert late.step is Step.FENCE
    moved = decide(episode(confirm(reason="saved"), symptom=Symptom.LATE_FENCE), POLICY, NOW)
    assert isinstance(moved, Close)


def test_ports_seen_open_long_ago_are_looked_at_again_before_dns_moves() -> None:
    steps = (confirm(), done(Step.FENCE), done(Step.START), done(Step.PROBE, NOW - 100))
    decision = decide(episode(*steps), POLICY, NOW)
    assert isinstance(decision, Run)
    assert decision.step is Step.PROBE


@pytest.mark.parametrize("came", ["failed", "killed"])
def test_ports_are_looked_at_again_before_each_further_try_of_the_switch(came: str) -> None:
    """It may have waited for a name server, and what serves may have ended meanwhile."""
    up = (confirm(), done(Step.FENCE), done(Step.START), done(Step.PROBE))
    assert decide(episode(*up), POLICY, NOW) == Run(Step.SWITCH, "every port answers: switching DNS")
    failed = StepRecord(Step.SWITCH, NOW - 1, NOW - 1, evidence=Failed("ns1 does not answer"))
    switch = failed if came == "failed" else StepRecord(Step.SWITCH, NOW - 1)
    looks = decide(episode(*up, switch), POLICY, NOW)
    assert looks == Run(Step.PROBE, "the ports were seen open 1 s ago: looking again")
    again = decide(episode(*up, switch, done(Step.PROBE)), POLICY, NOW)
    assert again == Run(Step.SWITCH, "every port answers: switching DNS")


def test_ports_are_looked_at_before_each_further_try_to_verify() -> None:
    """A name server may be away for days, and what serves may end meanwhile."""
    up = (confirm(), done(Step.FENCE), done(Step.START), done(Step.PROBE, NOW - 3), done(Step.SWITCH, NOW - 2))
    verifies = Run(Step.VERIFY, "DNS has changed: asking every authoritative server")
    assert decide(episode(*up), POLICY, NOW) == verifies
    assert decide(episode(*up, StepRecord(Step.VERIFY, NOW - 1)), POLICY, NOW) == verifies, "nobody has waited yet"
    failed = StepRecord(Step.VERIFY, NOW - 1, NOW - 1, evidence=Failed("ns2 does not answer"))
    looks = Run(Step.PROBE, "not every DNS server has it yet: looking whether the ports still answer")
    assert decide(episode(*up, failed), POLICY, NOW) == looks
    seen = episode(*up, failed, done(Step.PROBE))
    assert decide(seen, POLICY, NOW) == verifies
    assert decide(seen, POLICY, NOW + POLICY.probe_valid_for + 1) == looks
    assert seen.ports_opened == up[3], "since then it has served"
    assert seen.ports_failed_since_the_switch == ""
    ended = episode(*up, failed, StepRecord(Step.PROBE, NOW, NOW, evidence=Failed("container web has ended")))
    assert ended.ports_failed_since_the_switch == "container web has ended"
    assert ended.ports_opened == up[3]


def test_what_failed_before_the_switch_has_not_failed_since() -> None:
    failed = StepRecord(Step.PROBE, NOW, NOW, evidence=Failed("80: connection refused"))
    up = (confirm(), done(Step.FENCE), done(Step.START), failed)
    assert episode(*up).ports_failed_since_the_switch == ""
    assert episode(*up, done(Step.PROBE), done(Step.SWITCH)).ports_failed_since_the_switch == ""


def test_without_dns_names_the_ports_are_the_end() -> None:
    steps = (confirm(), done(Step.FENCE), done(Step.START), done(Step.PROBE))
    decision = decide(episode(*steps), Policy(has_dns=False), NOW)
    assert isinstance(decision, Close)
    assert decision.outcome is Outcome.DONE


def test_a_step_that_was_interrupted_is_run_again() -> None:
    interrupted = StepRecord(Step.START, NOW - 1)
    decision = decide(episode(confirm(), done(Step.FENCE), interrupted), POLICY, NOW)
    assert isinstance(decision, Run)
    assert decision.step is Step.START


@pytest.mark.parametrize(
    "evidence", [{"reason": "migrated"}, {"open_ports": ["10.0.0.1:80"]}, {"standby_problem": "LXD does not answer"}]
)
def test_what_even_force_does_not_override(evidence: dict[str, Any]) -> None:
    """A fence would prove nothing, or there is nothing to start."""
    decision = decide(episode(confirm(**evidence), automatic=False, force=True), POLICY, NOW)
    assert isinstance(decision, Close)
    assert decision.outcome is Outcome.REFUSED


HANGS: dict[str, Any] = {"power": "running", "reason": "", "cpu": 0.0, "heard": 70.0}
SPINS: dict[str, Any] = {**HANGS, "cpu": 99.0}


@pytest.mark.parametrize(
    ("symptom", "evidence", "said"),
    [
        (Symptom.NONE, HANGS, "is running: no failure"),
        (Symptom.VM, HANGS, "is running: no failure"),
        (Symptom.HOST, HANGS, "is running: no failure"),
        (Symptom.CPU_ZERO, {**HANGS, "power": "paused"}, "is paused: no failure"),
        (Symptom.CPU_ZERO, {**HANGS, "cpu": 0.1}, "uses its CPU again"),
        (Symptom.CPU_ZERO, {**HANGS, "cpu": None}, "cannot be read"),
        (Symptom.CPU_ZERO, {**HANGS, "heard": 59.0}, "a heartbeat of web arrived"),
        (Symptom.CPU_ZERO, {**HANGS, "open_ports": ["10.0.0.1:80"]}, "still answers"),
        (Symptom.CPU_HIGH, {**SPINS, "cpu": 60.0}, "uses only 60.0 %"),
        (Symptom.CPU_HIGH, {**SPINS, "open_ports": ["10.0.0.1:80"]}, "still answers"),
    ],
)
def test_a_guest_that_runs_hangs_only_when_every_signal_says_so(
    symptom: Symptom, evidence: dict[str, Any], said: str
) -> None:
    decision = decide(episode(confirm(**evidence), symptom=symptom), POLICY, NOW)
    assert isinstance(decision, Close)
    assert decision.outcome is Outcome.FALSE_ALARM
    assert said in decision.sentence


@pytest.mark.parametrize(
    ("symptom", "evidence"),
    [(Symptom.CPU_ZERO, HANGS), (Symptom.CPU_ZERO, {**HANGS, "heard": None}), (Symptom.CPU_HIGH, SPINS)],
)
def test_a_guest_that_hangs_is_fenced(symptom: Symptom, evidence: dict[str, Any]) -> None:
    decision = decide(episode(confirm(**evidence), symptom=symptom), POLICY, NOW)
    assert isinstance(decision, Run)
    assert decision.step is Step.FENCE


@pytest.mark.parametrize(
    ("changes", "words", "outcome", "said"),
    [
        ({}, {}, Outcome.REFUSED, "cannot be fenced: hv1 does not answer"),
        ({"fence_command": False}, {"symptom": Symptom.HOST}, Outcome.REFUSED, "cannot be fenced: hv1 does not answer"),
        ({"detail": ""}, {}, Outcome.REFUSED, "web cannot be fenced: its hypervisor does not answer"),
        ({}, {"symptom": Symptom.CPU_ZERO}, Outcome.REFUSED, "cannot be fenced: hv1 does not answer"),
        ({"open_ports": ["10.0.0.1:80"]}, {"symptom": Symptom.HOST}, Outcome.FALSE_ALARM, "web still answers"),
        ({"neighbours": OTHERS}, {"automatic": False}, Outcome.REFUSED, "still answers: shop (10.0.0.2:443)"),
        ({"open_ports": ["10.0.0.1:80"]}, {"automatic": False}, Outcome.REFUSED, "web still answers"),
    ],
)
def test_a_hypervisor_is_not_powered_off(
    changes: dict[str, Any], words: dict[str, Any], outcome: Outcome, said: str
) -> None:
    """Neither because it was away for a moment, nor while anything on it still serves."""
    decision = decide(episode(confirm(**{**AWAY, **changes}), **words), POLICY, NOW)
    assert isinstance(decision, Close)
    assert decision.outcome is outcome
    assert said in decision.sentence


@pytest.mark.parametrize(
    ("words", "transient"),
    [
        ({}, True),
        ({"symptom": Symptom.CPU_ZERO}, True),
        # It has been silent for long, and nothing but its return changes that: which is another failure.
        ({"symptom": Symptom.HOST}, False),
        ({"automatic": False}, False),
    ],
)
def test_a_hypervisor_that_is_away_in_that_moment_may_be_back_in_the_next(
    words: dict[str, Any], transient: bool
) -> None:
    decision = decide(episode(confirm(**{**AWAY, "fence_command": False}), **words), POLICY, NOW)
    assert isinstance(decision, Close)
    assert (decision.outcome, decision.transient) == (Outcome.REFUSED, transient)


def test_a_failed_hypervisor_is_looked_at_again_while_a_neighbour_answers() -> None:
    """By itself, since nobody would call again once that one has ended too."""
    decision = decide(episode(confirm(**AWAY, neighbours=OTHERS), symptom=Symptom.HOST), POLICY, NOW)
    assert isinstance(decision, Blocked)
    assert decision.step is Step.CONFIRM
    assert "still answers: shop (10.0.0.2:443)" in decision.sentence


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, {"symptom": Symptom.HOST}),
        ({}, {"automatic": False}),
        ({"neighbours": OTHERS}, {"automatic": False, "force": True}),
    ],
)
def test_a_hypervisor_that_has_failed_is_powered_off(changes: dict[str, Any], words: dict[str, Any]) -> None:
    decision = decide(episode(confirm(**{**AWAY, **changes}), **words), POLICY, NOW)
    assert isinstance(decision, Run)
    assert decision.step is Step.FENCE


def test_what_seems_to_be_done_in_the_future_is_done_again() -> None:
    """A clock was set back: how long ago it was, nobody knows, and the primary may serve by now."""
    later = StepRecord(Step.CONFIRM, NOW + 3000, NOW + 3001, True, proof(Step.CONFIRM, **CONFIRMED))
    decision = decide(episode(later), POLICY, NOW)
    assert isinstance(decision, Run)
    assert decision.step is Step.CONFIRM
    ports = (confirm(), done(Step.FENCE), done(Step.START), done(Step.PROBE, NOW + 3000))
    decision = decide(episode(*ports), POLICY, NOW)
    assert isinstance(decision, Run)
    assert decision.step is Step.PROBE
    assert "the clock was set back" in decision.sentence


@pytest.mark.parametrize("fenced_at", [NOW - 61, NOW + 3000])
def test_a_standby_does_not_start_behind_an_old_fence(fenced_at: float) -> None:
    """Somebody may have started the primary since."""
    decision = decide(episode(confirm(), done(Step.FENCE, fenced_at)), POLICY, NOW)
    assert isinstance(decision, Run)
    assert decision.step is Step.FENCE
    recent = decide(episode(confirm(), done(Step.FENCE, NOW - 59)), POLICY, NOW)
    assert isinstance(recent, Run)
    assert recent.step is Step.START


def test_half_of_another_restore_point_is_not_the_one_that_was_in_place_before() -> None:
    """Monday was in place, Tuesday was cut short, and now Monday is asked for again."""
    whole = StepRecord(Step.RESTORE, NOW - 3, NOW - 2, True, Restored(asked="monday", restore_point="monday"))
    cut_short = StepRecord(Step.RESTORE, NOW - 1)
    before = episode(confirm(), done(Step.FENCE), whole, cut_short, automatic=False)
    decision = decide(replace(before, request=replace(before.request, restore_point="monday")), POLICY, NOW)
    assert isinstance(decision, Run)
    assert decision.step is Step.RESTORE


def test_what_was_seen_before_the_controller_stood_still_is_looked_at_again() -> None:
    """Its machine was suspended in the middle of the look: the VM may serve again since."""
    slow = confirm()
    slow = replace(slow, begun_at=NOW - 40.0, ended_at=NOW - 1.0)
    decision = decide(episode(slow), POLICY, NOW)
    assert decision == Run(Step.CONFIRM, "to look took 40 s: asking again")
    # One that was slow, and half as slow as this: that is no reason.
    before = replace(slow, begun_at=NOW - 60.0, ended_at=NOW - 46.0)
    assert decide(episode(before, slow), POLICY, NOW) == decision
    # One that is as slow again: to ask a third time makes nothing better.
    before = replace(slow, begun_at=NOW - 80.0, ended_at=NOW - 41.0)
    assert isinstance(after := decide(episode(before, slow), POLICY, NOW), Run)
    assert after.step is Step.FENCE
