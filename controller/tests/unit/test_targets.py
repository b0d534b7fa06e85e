"""RTO and RPO reached, from episodes and drills alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from view_cases import CONFIRM, DONE, FENCE, NOW, OPEN, REFUSED, START, step

from vcrecovery.core.drill import Drill, DrillOutcome, DrillStep, StepDone
from vcrecovery.core.episode import Episode, Outcome, Request, Step
from vcrecovery.report.targets import Kind, Reached, Verdict, of_drill, of_episode

PLANNED = replace(
    OPEN,
    request=Request(planned=True, by="ann"),
    steps=(
        CONFIRM,
        step(Step.SHUTDOWN, 2.0, 5.0, summary="it shut down", power="shutoff"),
        step(Step.PROBE, 7.0, 8.0, summary="x", address="10.20.0.10"),
        step(Step.SWITCH, 8.0, 8.5, summary="x", before={}),
    ),
    closed_at=NOW + 9,
    outcome=Outcome.DONE,
)


def reached(episode: Episode, rto: float | None = 30.0, rpo: float | None = 60.0, now: float = NOW + 100) -> Reached:
    return of_episode(episode, now, rto, rpo)


def test_a_failover_takes_from_its_beginning_to_the_dns_check() -> None:
    began = replace(DONE, request=replace(DONE.request, began_at=NOW - 2))
    found = reached(began)
    assert (found.kind, found.began_at, found.until) == (Kind.FAILOVER, NOW - 2, "DNS checked")
    assert found.rto == pytest.approx(6.7)
    assert found.rpo == 8.4
    assert (found.rto_verdict, found.rpo_verdict) == (Verdict.MET, Verdict.MET)


def test_where_nobody_knows_when_it_began_it_counts_from_its_detection() -> None:
    assert reached(DONE).rto == pytest.approx(4.7)


def test_without_dns_it_ends_with_its_ports() -> None:
    found = reached(replace(DONE, steps=DONE.steps[:4]))
    assert found.rto == pytest.approx(4.6)
    assert found.until == "ports open"


@pytest.mark.parametrize(("rto", "rpo", "missed"), [(4.8, 8.5, False), (4.6, 8.5, True), (4.8, 8.3, True)])
def test_targets_are_missed_by_what_was_reached(rto: float, rpo: float, missed: bool) -> None:
    assert reached(DONE, rto, rpo).missed is missed


def test_without_a_target_nothing_is_missed() -> None:
    found = reached(DONE, None, None)
    assert (found.rto_verdict, found.rpo_verdict, found.missed) == (Verdict.NO_TARGET, Verdict.NO_TARGET, False)


def test_one_that_never_ended_misses_its_target_once_that_is_over() -> None:
    opened = replace(OPEN, steps=(CONFIRM, FENCE, START))
    early = reached(opened, now=NOW + 10)
    assert (early.rto, early.goes_on, early.rto_verdict) == (10.0, True, Verdict.UNKNOWN)
    late = reached(opened, now=NOW + 86400 * 30)
    assert (late.outcome, late.rto_verdict, late.rpo) == ("not finished", Verdict.MISSED, 8.4)


def test_what_was_refused_took_nothing_away() -> None:
    found = reached(REFUSED)
    assert (found.counts, found.rto, found.rpo, found.missed) == (False, None, None, False)
    assert found.rto_verdict is Verdict.UNKNOWN


def test_a_switchover_takes_the_service_away_from_its_shutdown_on() -> None:
    found = reached(PLANNED)
    assert (found.kind, found.began_at, found.rto, found.until) == (Kind.SWITCHOVER, NOW + 2, 6.5, "DNS switched")
    assert found.rpo == 0.0


def test_a_switchover_that_was_taken_back_took_it_away_too() -> None:
    back = step(Step.TAKE_BACK, 6.0, 20.0, summary="it runs again")
    found = reached(replace(PLANNED, steps=(*PLANNED.steps[:2], back), outcome=Outcome.TAKEN_BACK))
    assert (found.rto, found.until, found.rpo) == (18.0, "taken back", None)


def test_a_failback_counts_from_the_stop_of_the_standby() -> None:
    steps = (step(Step.COPY, 1.0, 50.0, summary="x"), step(Step.STOP, 50.0, 51.0, summary="x"), *PLANNED.steps[2:])
    moved = replace(PLANNED, request=Request(back=True), steps=tuple(replace(s) for s in steps))
    moved = replace(moved, steps=(*moved.steps[:2], step(Step.PROBE, 60.0, 61.0, summary="x", address="x")))
    found = reached(moved)
    assert (found.kind, found.rto, found.rpo) == (Kind.FAILBACK, 11.0, 0.0)


def test_a_planned_move_that_took_nothing_away_yet() -> None:
    found = reached(replace(PLANNED, steps=(CONFIRM,), outcome=None, closed_at=None))
    assert (found.rto, found.goes_on) == (None, False)


def test_a_clock_that_was_set_back_tells_nothing() -> None:
    verify = replace(DONE.steps[-1], ended_at=NOW - 3600)
    assert reached(replace(DONE, steps=(*DONE.steps[:-1], verify))).rto is None


def test_a_restore_point_decides_what_was_lost() -> None:
    restore = step(Step.RESTORE, 0.4, 0.9, summary="x", asked="p1", restore_point="p1", age=7200.0, sessions_ended=0)
    found = reached(replace(DONE, steps=(CONFIRM, FENCE, restore, *DONE.steps[2:])))
    assert (found.rpo, found.rpo_verdict) == (7200.0, Verdict.MISSED)


def test_a_standby_that_only_came_up_again_lost_nothing_of_its_primary() -> None:
    assert reached(replace(DONE, request=Request(again=True, automatic=True))).rpo is None


def test_a_drill_is_measured_from_the_start_of_its_clone() -> None:
    steps = (StepDone(DrillStep.START, NOW + 1, 2.0), StepDone(DrillStep.PORTS, NOW + 2, 1.5))
    drill = Drill(3, "web", NOW, "the watcher", NOW + 9, DrillOutcome.PASSED, "", steps)
    assert of_drill(drill, 3.0).automatic
    assert not of_drill(replace(drill, asked_by="alice"), 3.0).automatic
    assert of_drill(drill, 3.0).missed
    assert not of_drill(drill, 4.0).missed
    failed = of_drill(replace(drill, outcome=DrillOutcome.FAILED, reason="no table"), 4.0)
    assert (failed.counts, failed.reason, failed.rto_verdict) == (False, "no table", Verdict.UNKNOWN)
