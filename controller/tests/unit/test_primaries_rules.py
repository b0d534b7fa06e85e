"""What is remembered of each hypervisor's word, rule by rule; `test_primaries` has the stories."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_primaries import ABSENT, MIGRATED, OFF, PLAN, RUNS, UUID, Stage

from vcrecovery.core.cpu import CpuSample
from vcrecovery.core.domain import DomainEvent, DomainReading, DomainUsage
from vcrecovery.core.power import Power
from vcrecovery.core.sighting import OffTime, Sighting
from vcrecovery.plan.load import load_plan
from vcrecovery.plan.model import Plan

WAITS = DomainReading(Power.SHUTOFF, "", "", "autostart")


def plan_with(folder: Path, **detection: str) -> Plan:
    words = ", ".join(f"{key}: {value}" for key, value in detection.items())
    text = PLAN.format(folder=folder) + (f"detection: {{{words}}}\n" if detection else "")
    (folder / "plan.yml").write_text(text)
    return load_plan(folder / "plan.yml")


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_with(tmp_path)


@pytest.fixture
def stage(plan: Plan) -> Stage:
    """It runs on hv1, and everybody has answered."""
    stage = Stage(plan)
    stage.hears(hv1=RUNS, hv2=None, hv3=None)
    return stage


# -- who is concerned ------------------------------------------------------------------------------------------


def test_a_hypervisor_concerns_what_it_has_or_has_had(plan: Plan) -> None:
    stage = Stage(plan)
    primaries = stage.primaries
    # Where the plan has it, though nobody has answered.
    assert [primaries.on(host) for host in ("hv1", "hv2")] == [["web"], []]
    stage.hears(hv1=RUNS, hv2=None)
    assert [primaries.on(host) for host in ("hv1", "hv3")] == [["web"], []]
    stage.hears(hv1=MIGRATED, hv2=RUNS)
    assert [primaries.on(host) for host in ("hv1", "hv2", "hv3")] == [["web"], ["web"], []]


def test_a_vm_that_is_nobodys_service_says_nothing(stage: Stage) -> None:
    other = UUID[:-1] + "9"
    assert stage.primaries.service_of(UUID) == "web"
    assert stage.primaries.began("hv1", other) is None
    event = DomainEvent(other, stopped=True, reason="crashed")
    assert stage.primaries.happened("hv1", event, ABSENT, stage.clock.time) is None
    assert stage.primaries.service_of(other) is None
    assert stage.seen == (Power.RUNNING, "", "hv1")


def test_a_hypervisor_that_falls_silent_names_its_services_and_only_those(stage: Stage) -> None:
    assert stage.primaries.lost("hv3", "no route") == []
    assert stage.primaries.lost("hv1", "no route") == ["web"]
    assert stage.primaries["web"].reading == DomainReading(Power.UNREACHABLE, detail="no route")
    # How it is worded later is what counts then.
    stage.primaries.lost("hv1", "connection refused")
    assert stage.primaries["web"].reading.detail == "connection refused"


# -- silence ---------------------------------------------------------------------------------------------------


def test_who_has_not_been_asked_yet_is_not_silent(plan: Plan) -> None:
    stage = Stage(plan)
    assert stage.primaries.silent == frozenset()
    stage.primaries.lost("hv2", "no route")
    stage.hears(hv1=RUNS)
    assert stage.primaries.silent == {"hv2"}
    stage.hears(hv2=None)
    assert stage.primaries.silent == frozenset()


@pytest.mark.parametrize("again", [False, True])
def test_a_silence_begins_when_nothing_was_heard_first(stage: Stage, again: bool) -> None:
    """Each further failure to connect is the same silence."""
    stage.primaries.lost("hv2", "no route")
    stage.primaries.lost("hv1", "no route")
    stage.clock.time += 50.0
    if again:
        stage.primaries.lost("hv1", "connection refused")
    stage.hears(10.0, hv1=OFF)
    assert stage.primaries.maybe_on("web", None) == ("hv2",)


def test_a_second_silence_counts_from_its_own_beginning(stage: Stage) -> None:
    stage.primaries.lost("hv2", "no route")
    stage.primaries.lost("hv1", "no route")
    stage.hears(10.0, hv1=OFF)
    stage.clock.time += 100.0
    stage.primaries.lost("hv1", "no route")
    stage.hears(10.0, hv1=OFF)
    assert stage.primaries.maybe_on("web", None) == ()


def test_one_that_was_never_silent_has_given_nothing_away(stage: Stage) -> None:
    stage.primaries.lost("hv2", "no route")
    stage.hears(100.0, hv1=OFF)
    assert stage.primaries.maybe_on("web", None) == ()


def test_one_that_nobody_knows_may_be_on_any_that_is_silent(stage: Stage) -> None:
    stage.primaries.lost("hv2", "no route")
    stage.hears(hv1=None)
    stage.hears(hv3=None)
    assert stage.primaries.maybe_on("web", None) == ("hv2",)
    # And nowhere, once that one has answered.
    stage.hears(hv2=None)
    assert stage.primaries.maybe_on("web", None) == ()


def test_whoever_falls_silent_may_have_it_without_another_word_of_the_others(stage: Stage) -> None:
    stage.hears(hv1=None)
    said: list[tuple[str, ...]] = []
    for act in (lambda: None, lambda: stage.primaries.lost("hv3", "no route"), lambda: stage.hears(hv3=None)):
        act()
        said.append(stage.primaries["web"].place.silent)
    assert said == [(), ("hv3",), ()]


def test_an_earlier_controllers_word_counts_only_until_it_is_seen_again(plan: Plan) -> None:
    stage = Stage(plan)
    old = Sighting(Power.RUNNING, "", 0.0, stage.clock.time - 3600.0, "hv1")
    assert stage.primaries.unwatched("web", old)
    assert not stage.primaries.unwatched("web", None)
    stage.hears(hv1=RUNS)
    assert not stage.primaries.unwatched("web", old)


# -- words that are older than what is known -------------------------------------------------------------------


def test_a_list_of_before_the_event_does_not_make_it_disappear(stage: Stage) -> None:
    asked_at = stage.clock.time
    stage.clock.time += 1.0
    stage.event("hv1", "resumed", "", RUNS)
    stage.primaries.heard("hv1", asked_at, stage.clock.time, {})
    assert stage.primaries["web"].reading == RUNS
    # One of that very moment has seen it.
    stage.primaries.heard("hv1", stage.clock.time, stage.clock.time, {})
    assert stage.primaries["web"].reading.power is Power.ABSENT
    stage.primaries.heard("hv1", stage.clock.time, stage.clock.time, {UUID: DomainUsage(OFF)})
    assert stage.primaries["web"].reading == OFF


def test_what_is_forgotten_has_to_be_said_again(stage: Stage) -> None:
    stage.primaries.forget("web", "it was brought back")
    assert stage.primaries["web"].reading == DomainReading(Power.UNREACHABLE, detail="it was brought back")
    stage.hears(hv1=RUNS)
    assert stage.primaries["web"].reading == RUNS


@pytest.mark.parametrize(
    ("hypervisors", "said"), [(3, "no hypervisor knows VM"), (1, "hypervisor hv1 does not know VM")]
)
def test_where_it_is_missed_is_said(tmp_path: Path, hypervisors: int, said: str) -> None:
    text = PLAN.format(folder=tmp_path)
    if hypervisors == 1:
        text = text.replace("{hv1: {}, hv2: {}, hv3: {}}", "{hv1: {}}")
    (tmp_path / "plan.yml").write_text(text)
    stage = Stage(load_plan(tmp_path / "plan.yml"))
    for host in ("hv1", "hv2", "hv3")[:hypervisors]:
        stage.primaries.heard(host, 1000.0, 1000.0, {})
    assert stage.primaries["web"].reading.detail == f"{said} {UUID}"


# -- how it ended ----------------------------------------------------------------------------------------------


def test_how_a_transient_vm_ended_only_its_event_says(stage: Stage) -> None:
    stage.event("hv1", "stopped", "crashed", ABSENT)
    assert stage.primaries["web"].reading.reason == "crashed"
    # Neither another event, nor silence, nor a list takes that back.
    stage.event("hv1", "undefined", "removed", ABSENT)
    assert stage.primaries["web"].reading.reason == "crashed"
    stage.primaries.lost("hv1", "no route")
    assert stage.primaries["web"].reading == DomainReading(Power.UNREACHABLE, "crashed", "no route")
    stage.hears(hv1=None)
    assert stage.primaries["web"].reading.reason == "crashed"


def test_one_that_can_be_read_after_its_event_is_what_is_read(stage: Stage) -> None:
    stage.event("hv1", "stopped", "shutdown", DomainReading(Power.SHUTOFF, "shutdown"))
    assert stage.seen == (Power.SHUTOFF, "shutdown", "hv1")


def test_one_that_nobody_has_any_more_is_missed_where_it_was_last(stage: Stage) -> None:
    stage.hears(hv1=None, hv2=RUNS)
    stage.hears(hv2=None)
    assert stage.primaries["web"].place.host == "hv2"


def test_the_time_of_a_fault_begins_once_and_ends_with_it(stage: Stage) -> None:
    stalled, began = DomainReading(Power.PAUSED, "I/O error"), stage.clock.time + 5
    since: list[float | None] = []
    for reading in (stalled, stalled, RUNS, stalled):
        stage.hears(hv1=reading)
        since.append(stage.primaries["web"].stalled_since)
    assert since == [began, began, None, began + 15]


# -- CPU -------------------------------------------------------------------------------------------------------


def sampled(stage: Stage) -> list[float]:
    return [sample.at for sample in stage.primaries["web"].samples]


def test_cpu_time_is_read_while_it_runs_and_where_it_is(stage: Stage) -> None:
    begun = stage.clock.time
    assert stage.primaries["web"].samples == (CpuSample(begun, 10**9, 1),)
    stage.hears(hv1=RUNS)
    # A copy that a migration fills has a time of its own.
    stage.hears(hv2=DomainReading(Power.PAUSED, "migration"))
    assert sampled(stage) == [begun, begun + 5]
    stage.hears(hv1=DomainReading(Power.PAUSED))
    assert sampled(stage) == []


@pytest.mark.parametrize("what", ["lost", "moved", "began"])
def test_what_was_read_before_belongs_to_what_was_before(stage: Stage, what: str) -> None:
    stage.hears(hv1=RUNS)
    if what == "lost":
        stage.primaries.lost("hv1", "no route")
    elif what == "moved":
        stage.event("hv2", "resumed", "migrated", RUNS)
        stage.event("hv1", "stopped", "migrated", ABSENT)
    else:
        stage.primaries.began("hv1", UUID)
    assert sampled(stage) == []


@pytest.mark.parametrize(("zero", "high"), [("20s", "40s"), ("40s", "20s")])
def test_as_much_is_kept_as_the_longer_threshold_needs(tmp_path: Path, zero: str, high: str) -> None:
    stage = Stage(plan_with(tmp_path, cpu_zero_for=zero, cpu_high_for=high))
    for _ in range(20):
        stage.hears(10.0, hv1=RUNS)
    assert stage.clock.time - sampled(stage)[0] == 40.0


# -- a hypervisor that is back ---------------------------------------------------------------------------------


def test_one_that_nobody_starts_is_not_waited_for(stage: Stage) -> None:
    stage.primaries.lost("hv1", "no route")
    stage.hears(hv1=OFF)
    assert stage.primaries.starting("web") == ""


def test_while_it_is_away_nobody_knows_how_long_it_takes(stage: Stage) -> None:
    """An event comes before its first answer."""
    stage.hears(1000.0, hv1=RUNS)
    stage.primaries.lost("hv1", "no route")
    stage.event("hv1", "defined", "", WAITS)
    assert stage.primaries.starting("web") == "autostart"


def test_on_one_that_was_never_away_nothing_is_started_by_itself(plan: Plan) -> None:
    """Its autostart was at its boot; since then somebody has stopped the VM."""
    stage = Stage(plan)
    stage.hears(hv1=RUNS, hv2=None, hv3=None)
    stage.hears(100.0, hv1=WAITS)
    assert stage.primaries.starting("web") == ""


# -- what the journal learns -----------------------------------------------------------------------------------


def test_the_journal_learns_each_thing_once(stage: Stage) -> None:
    primaries = stage.primaries
    seen = primaries["web"].seen
    assert seen is not None
    assert primaries.news("web") == (seen, None)
    primaries.told("web")
    stage.hears(hv1=RUNS)
    assert primaries.news("web") is None
    stage.hears(55.0, hv1=RUNS)
    assert primaries.news("web") is not None


def test_nothing_is_no_news(plan: Plan) -> None:
    stage = Stage(plan)
    stage.primaries.lost("hv1", "no route")
    assert stage.primaries.news("web") is None


def test_that_it_is_off_is_told_while_it_lasts_and_not_at_each_word(stage: Stage) -> None:
    primaries, stopped = stage.primaries, DomainReading(Power.SHUTOFF, "shutdown")
    stage.hears(hv1=stopped)
    stage.hears(hv1=stopped)
    news = primaries.news("web")
    assert news is not None
    assert news[1] == OffTime(1010.0, 1015.0)
    primaries.told("web")
    stage.hears(hv1=stopped)
    assert primaries.news("web") is None


def test_a_time_in_which_it_was_off_is_told_although_it_runs_as_before(stage: Stage) -> None:
    """It was off between two words to the journal, which has it running all the time."""
    primaries, stopped = stage.primaries, DomainReading(Power.SHUTOFF, "shutdown")
    primaries.told("web")
    for reading in (stopped, stopped, RUNS, RUNS):
        stage.hears(hv1=reading)
    news = primaries.news("web")
    assert news is not None
    assert news[1] == OffTime(1010.0, 1015.0)
    primaries.told("web")
    assert primaries.news("web") is None
