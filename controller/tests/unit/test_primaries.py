"""Where a primary is and what it does, from what several hypervisors say; and what is remembered of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from vcrecovery.core.domain import DomainEvent, DomainReading, DomainUsage
from vcrecovery.core.meaning import Meaning
from vcrecovery.core.power import Power
from vcrecovery.core.sighting import OffTime, Sighting, find, ran_for, sighted, still_off, worth_writing
from vcrecovery.detect.primaries import Primaries
from vcrecovery.plan.load import load_plan
from vcrecovery.plan.model import Plan
from vcrecovery.store.journal import Journal

UUID = "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0001"
PLAN = """\
version: 1
state_dir: {folder}/state
hypervisors: {{hv1: {{}}, hv2: {{}}, hv3: {{}}}}
secondaries:
  sec1:
    network: {{bridge: vcr0, address: 10.20.0.1/24}}
    receiver: {{address: 10.10.0.1}}
services:
  web:
    primary: {{hypervisor: hv1, uuid: 6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0001, address: 127.0.0.1}}
    standby: {{secondary: sec1, address: 10.20.0.11}}
    ports: [80]
"""
RUNS, OFF, CRASHED = DomainReading(Power.RUNNING), DomainReading(Power.SHUTOFF), DomainReading(Power.SHUTOFF, "crashed")
PAUSED, SILENT, ABSENT = DomainReading(Power.PAUSED), DomainReading(Power.UNREACHABLE), DomainReading(Power.ABSENT)
MIGRATED = DomainReading(Power.SHUTOFF, "migrated")


@pytest.mark.parametrize(
    ("said", "host", "also_on", "silent"),
    [
        ({"hv1": RUNS}, "hv1", (), ()),
        ({"hv1": MIGRATED, "hv2": RUNS}, "hv2", (), ()),
        ({"hv2": RUNS}, "hv2", (), ()),
        ({"hv1": OFF, "hv2": RUNS}, "hv2", (), ()),
        ({"hv1": SILENT, "hv2": RUNS}, "hv2", (), ("hv1",)),
        # In the middle of a migration, and after one that broke.
        ({"hv1": RUNS, "hv2": PAUSED}, "hv1", ("hv2",), ()),
        ({"hv1": PAUSED, "hv2": RUNS}, "hv2", ("hv1",), ()),
        ({"hv1": PAUSED, "hv2": PAUSED}, "hv1", ("hv2",), ()),
        ({"hv1": RUNS, "hv2": RUNS}, "hv1", ("hv2",), ()),
        ({"hv1": MIGRATED, "hv2": PAUSED}, "hv2", (), ()),
        # A copy that waits for its memory does not make up for an original that died.
        ({"hv1": CRASHED, "hv2": PAUSED}, "hv1", ("hv2",), ()),
        ({"hv1": OFF, "hv2": PAUSED}, "hv1", ("hv2",), ()),
        ({"hv1": SILENT, "hv2": PAUSED}, "hv1", ("hv2",), ()),
        # It went away: whoever may have it counts.
        ({"hv1": MIGRATED, "hv2": CRASHED}, "hv2", (), ()),
        ({"hv1": MIGRATED, "hv2": MIGRATED}, "hv1", (), ()),
        ({"hv1": MIGRATED, "hv2": SILENT}, "hv2", (), ()),
        # Being silent is no sign of having it.
        ({"hv2": SILENT}, "hv1", (), ("hv2",)),
        ({"hv1": MIGRATED, "hv2": SILENT, "hv3": SILENT}, "hv1", (), ("hv2", "hv3")),
        ({}, "hv1", (), ()),
        ({"hv1": SILENT}, "hv1", (), ()),
        ({"hv1": CRASHED, "hv2": SILENT}, "hv1", (), ("hv2",)),
        ({"hv1": OFF, "hv2": OFF}, "hv1", (), ()),
    ],
)
def test_who_has_it(
    said: dict[str, DomainReading], host: str, also_on: tuple[str, ...], silent: tuple[str, ...]
) -> None:
    place = find(said, ["hv1", "hv2", "hv3"], ABSENT)
    assert (place.host, place.also_on, place.silent) == (host, also_on, silent)
    assert place.reading == said.get(host, ABSENT)


def test_only_what_is_certain_is_remembered() -> None:
    ran = Sighting(Power.RUNNING, "", 10.0, 10.0, "hv1")
    assert sighted(None, Power.RUNNING, "", "hv1", 10.0) == ran
    assert sighted(ran, Power.RUNNING, "", "hv1", 20.0) == Sighting(Power.RUNNING, "", 10.0, 20.0, "hv1")
    assert sighted(ran, Power.RUNNING, "", "hv2", 20.0) == Sighting(Power.RUNNING, "", 20.0, 20.0, "hv2")
    for power, reason in ((Power.SHUTOFF, ""), (Power.ABSENT, ""), (Power.UNREACHABLE, ""), (Power.SHUTOFF, "failed")):
        assert sighted(ran, power, reason, "hv1", 20.0) is ran
    stopped = sighted(ran, Power.SHUTOFF, "destroyed", "hv1", 20.0)
    assert stopped is not None
    assert stopped.meaning is Meaning.STOPPED


@pytest.mark.parametrize(
    ("seen", "worth"),
    [
        (Sighting(Power.RUNNING, "", 10.0, 69.0, "hv1"), False),
        (Sighting(Power.RUNNING, "", 10.0, 70.0, "hv1"), True),
        (Sighting(Power.RUNNING, "", 11.0, 11.0, "hv2"), True),
        (Sighting(Power.SHUTOFF, "shutdown", 11.0, 11.0, "hv1"), True),
        (Sighting(Power.RUNNING, "", 10.0, -60.0, "hv1"), True),
        (None, False),
    ],
)
def test_the_journal_is_told_of_changes_and_now_and_then(seen: Sighting | None, worth: bool) -> None:
    assert worth_writing(Sighting(Power.RUNNING, "", 10.0, 10.0, "hv1"), seen) is worth
    assert worth_writing(None, seen) is (seen is not None)


def test_the_time_in_which_it_was_off_does_not_count() -> None:
    hour = OffTime(1000.0, 4600.0)
    assert ran_for(990.0, 4630.0, [hour]) == 40.0
    assert ran_for(990.0, 4630.0, []) == 3640.0
    assert ran_for(4610.0, 4630.0, [hour]) == 20.0
    assert ran_for(2000.0, 3000.0, [hour]) == 0.0
    assert ran_for(4630.0, 990.0, [hour]) == 0.0
    assert ran_for(0.0, 100.0, [OffTime(10.0, 20.0), OffTime(30.0, 60.0)]) == 60.0


def test_a_gap_between_two_looks_may_have_been_a_run() -> None:
    off = still_off(None, Meaning.STOPPED, 10.0)
    off = still_off(off, Meaning.LOST, 40.0)
    assert off == OffTime(10.0, 40.0)
    assert still_off(off, Meaning.STOPPED, 40.0) == off
    assert still_off(off, Meaning.STOPPED, 40.5) == OffTime(10.0, 40.5)
    assert still_off(off, Meaning.STOPPED, 71.0) == OffTime(71.0, 71.0)
    assert still_off(off, Meaning.STOPPED, 39.0) == OffTime(39.0, 39.0)
    assert still_off(off, Meaning.SILENT, 41.0) is None


@pytest.mark.parametrize("meaning", [Meaning.MIGRATED, Meaning.LOST, Meaning.GONE, Meaning.RUNS, Meaning.SUSPENDED])
def test_one_that_may_run_elsewhere_is_not_known_to_be_off(meaning: Meaning) -> None:
    assert still_off(None, meaning, 10.0) is None


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        return self.time


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    (tmp_path / "plan.yml").write_text(PLAN.format(folder=tmp_path))
    return load_plan(tmp_path / "plan.yml")


class Stage:
    """Three hypervisors that say things, one after the other."""

    def __init__(self, plan: Plan, home: str = "hv1") -> None:
        self.clock = Clock()
        self.primaries = Primaries(plan, {"web": home}, self.clock.now, self.clock.now)

    def hears(self, after: float = 5.0, **said: DomainReading | None) -> None:
        self.clock.time += after
        for host, reading in said.items():
            usage = {} if reading is None else {UUID: DomainUsage(reading, 10**9, 1)}
            self.primaries.heard(host, self.clock.time, self.clock.time, usage)

    def event(self, host: str, word: str, reason: str, reading: DomainReading) -> None:
        event = DomainEvent(UUID, word == "stopped", reason, "web", word, reason)
        self.primaries.happened(host, event, reading, self.clock.time)

    @property
    def seen(self) -> tuple[Power, str, str] | None:
        seen = self.primaries["web"].seen
        return None if seen is None else (seen.power, seen.reason, seen.host)


@pytest.fixture
def stage(plan: Plan) -> Stage:
    stage = Stage(plan)
    stage.hears(hv1=RUNS, hv2=None, hv3=None)
    return stage


@pytest.mark.parametrize("source_first", [True, False])
def test_an_orderly_migration_is_followed(stage: Stage, source_first: bool) -> None:
    gone = DomainReading(Power.ABSENT)
    if source_first:
        stage.event("hv1", "stopped", "migrated", gone)
        assert stage.seen == (Power.ABSENT, "migrated", "hv1")
    stage.primaries.began("hv2", UUID)
    stage.event("hv2", "resumed", "migrated", RUNS)
    if not source_first:
        stage.event("hv1", "stopped", "migrated", gone)
    assert stage.primaries["web"].place.host == "hv2"
    assert stage.seen == (Power.RUNNING, "", "hv2")
    # Once the next round has been asked, and for good.
    stage.hears(hv1=None, hv2=RUNS, hv3=None)
    stage.hears(hv1=None, hv2=OFF, hv3=None)
    assert stage.primaries["web"].place.host == "hv2"
    assert stage.seen == (Power.RUNNING, "", "hv2")


def test_an_event_counts_also_when_its_hypervisor_is_gone_by_then(stage: Stage) -> None:
    """The last that is heard of an orderly shutdown of the host."""
    stage.event("hv1", "stopped", "shutdown", SILENT)
    assert stage.seen == (Power.ABSENT, "shutdown", "hv1")
    assert stage.primaries["web"].reading.power is Power.UNREACHABLE


def test_a_start_that_ended_before_anybody_looked_was_a_run(stage: Stage) -> None:
    stage.hears(hv1=DomainReading(Power.SHUTOFF, "destroyed"))
    stage.primaries.began("hv1", UUID)
    stage.hears(hv1=OFF)
    assert stage.seen == (Power.RUNNING, "", "hv1")


def test_what_was_read_before_an_event_does_not_undo_it(stage: Stage) -> None:
    asked_at = stage.clock.time
    stage.clock.time += 1.0
    stage.event("hv1", "stopped", "crashed", CRASHED)
    stage.primaries.heard("hv1", asked_at, stage.clock.time, {UUID: DomainUsage(RUNS)})
    assert stage.primaries["web"].reading == CRASHED


def test_a_hypervisor_that_is_back_has_time_to_start_it(stage: Stage) -> None:
    waits = DomainReading(Power.SHUTOFF, "", "", "autostart")
    stage.primaries.lost("hv1", "connection lost")
    # An event may come before its first answer.
    stage.event("hv1", "defined", "", waits)
    assert stage.primaries.starting("web") == "autostart"
    stage.hears(hv1=waits)
    stage.hears(59.9, hv1=waits)
    assert stage.primaries.starting("web") == "autostart"
    stage.hears(0.1, hv1=waits)
    assert stage.primaries.starting("web") == ""


def both_silent(stage: Stage, apart: float, lasts: float) -> tuple[str, ...]:
    """hv2, then hv1 fall silent, `apart` seconds; hv1 is back after `lasts`, and has lost the VM."""
    stage.primaries.lost("hv2", "no route")
    stage.clock.time += apart
    stage.primaries.lost("hv1", "no route")
    stage.hears(lasts, hv1=OFF)
    return stage.primaries.maybe_on("web", None)


@pytest.mark.parametrize(
    ("apart", "lasts", "maybe"),
    [
        (0.0, 60.0, ("hv2",)),
        (599.0, 60.0, ("hv2",)),
        # It was down long before, or there was no time to move anything there.
        (600.0, 60.0, ()),
        (0.0, 59.0, ()),
    ],
)
def test_a_silent_hypervisor_may_have_been_given_the_vm_unseen(
    stage: Stage, apart: float, lasts: float, maybe: tuple[str, ...]
) -> None:
    assert both_silent(stage, apart, lasts) == maybe


def test_what_nobody_has_watched_may_have_changed(plan: Plan) -> None:
    def later(seconds: float) -> tuple[bool, tuple[str, ...]]:
        stage = Stage(plan)
        seen = Sighting(Power.RUNNING, "", 0.0, stage.clock.time - seconds, "hv1")
        stage.primaries.lost("hv2", "no route")
        stage.hears(hv1=OFF, hv3=None)
        return stage.primaries.unwatched("web", seen), stage.primaries.maybe_on("web", seen)

    assert later(180.0) == (False, ())
    assert later(181.0) == (True, ("hv2",))


def test_a_copy_that_a_migration_fills_is_not_where_it_runs(stage: Stage) -> None:
    stage.primaries.began("hv2", UUID)
    assert stage.seen == (Power.RUNNING, "", "hv1")
    stage.event("hv2", "started", "migrated", DomainReading(Power.PAUSED, "migration"))
    assert stage.primaries["web"].place.host == "hv1"
    stage.primaries.lost("hv1", "no route")
    stage.hears(hv2=None)
    # Its hypervisor is the one that fell silent, so that one is fenced.
    assert stage.primaries["web"].place.host == "hv1"


def test_one_that_runs_twice_is_told_after_a_migrations_time(stage: Stage) -> None:
    stage.hears(hv2=RUNS)
    stage.hears(14.9, hv1=RUNS)
    assert stage.primaries.runs_on("web") == ()
    stage.hears(0.1, hv1=RUNS)
    assert stage.primaries.runs_on("web") == ("hv1", "hv2")
    stage.hears(hv1=None)
    assert stage.primaries.runs_on("web") == ()


@pytest.mark.parametrize("first", ["hv2", "hv3"])
def test_hypervisors_are_named_in_the_plans_order_whoever_answered_first(plan: Plan, first: str) -> None:
    stage, second = Stage(plan), {"hv2": "hv3", "hv3": "hv2"}[first]
    stage.hears(5.0, **{first: RUNS})
    stage.hears(5.0, **{second: RUNS})
    stage.hears(15, **{first: RUNS})
    assert stage.primaries.runs_on("web") == ("hv2", "hv3")


def test_nothing_is_known_before_its_hypervisor_was_asked(plan: Plan) -> None:
    stage = Stage(plan)
    assert not stage.primaries.asked("web", None)
    stage.primaries.lost("hv1", "no route")
    assert stage.primaries.asked("web", None)


def test_where_it_went_is_not_known_before_all_hypervisors_were_asked(plan: Plan) -> None:
    for reading in (None, MIGRATED):
        stage = Stage(plan)
        stage.hears(hv1=reading)
        stage.hears(hv2=None)
        assert not stage.primaries.asked("web", None)
        stage.primaries.lost("hv3", "no route")
        assert stage.primaries.asked("web", None)
    # Of one that has it nobody else need say anything.
    for reading in (RUNS, CRASHED):
        stage = Stage(plan)
        stage.hears(hv1=reading)
        assert stage.primaries.asked("web", None)


def test_the_journal_gets_its_last_place_and_its_times_off(tmp_path: Path, plan: Plan) -> None:
    stage, journal = Stage(plan), Journal(tmp_path / "journal.db")

    def write() -> None:
        if (news := stage.primaries.news("web")) is not None:
            journal.saw({"web": news})
            stage.primaries.told("web")

    for reading in (RUNS, DomainReading(Power.SHUTOFF, "shutdown"), OFF, OFF, RUNS, RUNS):
        stage.hears(hv1=None, hv2=reading, hv3=None)
        write()
    seen = journal.state("web").seen
    assert seen is not None
    assert (seen.power, seen.host) == (Power.RUNNING, "hv2")
    assert journal.last_hosts() == {"web": "hv2"}
    assert journal.off_times("web") == [OffTime(1010.0, 1020.0)]
