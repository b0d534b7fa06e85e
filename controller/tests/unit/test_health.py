"""Whoever serves is asked all the time: what single looks come to, and what the journal keeps of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.waiting import wait_for
from simulated.scheduler import START
from simulated.site import Site
from vcrecovery.core.health import STEADY_FOR, Answers, Course, Health, Latencies, Outage, after, not_known
from vcrecovery.core.power import Power
from vcrecovery.core.service_state import ServiceState, Side
from vcrecovery.core.verdict import Kind, judge, with_health
from vcrecovery.detect import health_watch
from vcrecovery.detect.health_watch import HealthWatch
from vcrecovery.detect.rounds import Rounds
from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.probe import Result
from vcrecovery.drivers.runtime import THREADS
from vcrecovery.errors import ExternalError
from vcrecovery.store.journal import Journal
from vcrecovery.store.outages import OutageBook, Total

SLOW_AFTER = 1.0
WHY = "10.10.0.10:80: connection refused"


def good(at: float, seconds: float = 0.01) -> Answers:
    return Answers(at, seconds, {})


def bad(at: float, why: str = "connection refused") -> Answers:
    return Answers(at, 0.01, {"10.10.0.10:80": why})


def course_of(looks: Sequence[Answers], begin: Course | None = None) -> Course:
    course = begin or Course()
    for look in looks:
        course = after(course, look, SLOW_AFTER)
    return course


# -- what looks come to ----------------------------------------------------------------------------------------


def test_one_look_that_fails_is_believed_when_the_next_one_does_too() -> None:
    once = course_of([good(0), bad(5)])
    assert once.health is Health.ANSWERS
    assert once.next_look(5.0) < 1
    assert course_of([good(0), bad(5), good(5.25)]) == Course(Health.ANSWERS, 0, "", 0.01)
    down = course_of([good(0), bad(5), bad(5.25)])
    assert (down.health, down.since, down.why) == (Health.DOWN, 5, WHY)
    assert down.next_look(5.0) == 5.0


def test_while_it_is_down_the_newest_reason_counts() -> None:
    down = course_of([good(0, 0.5), bad(5), bad(5.25), bad(10, "no route"), good(15), bad(16, "no answer")])
    assert (down.health, down.since, down.why) == (Health.DOWN, 5, "10.10.0.10:80: no answer")
    assert (down.seconds, down.steady_at) == (None, None)
    assert course_of([bad(17, "no route")], down).why == "10.10.0.10:80: no route"


def test_it_is_up_again_from_the_first_good_look_of_those_that_go_on() -> None:
    back = course_of([bad(0), bad(0.25), good(10), good(11)])
    assert back.health is Health.DOWN
    assert back.next_look(5.0) == 1.0
    back = course_of([good(12.0)], back)
    assert back == Course(Health.ANSWERS, 10, "", 0.01)
    again = course_of([bad(0), bad(0.25), good(10), bad(11), good(12), good(13)])
    assert (again.health, again.since) == (Health.DOWN, 0)


def test_what_flaps_has_to_be_steady_for_longer_each_time() -> None:
    course = course_of([bad(0), bad(0.25), good(5), good(7)])
    assert course.steady_for == STEADY_FOR
    course = course_of([bad(10), bad(10.25), good(15), good(17)], course)
    assert (course.health, course.steady_for) == (Health.DOWN, 2 * STEADY_FOR)
    course = course_of([good(19)], course)
    assert course == Course(Health.ANSWERS, 15, "", 0.01, steady_for=2 * STEADY_FOR)
    assert course_of([good(20)], course).steady_for == 2 * STEADY_FOR
    # A minute later it begins with the usual time.
    assert course_of([bad(74.9), bad(75)], course).steady_for == 4 * STEADY_FOR
    assert course_of([bad(75), bad(75.25)], course).steady_for == STEADY_FOR


def test_an_answer_that_takes_as_long_as_a_bound_is_below_it() -> None:
    latencies = Latencies()
    for seconds in (0.005, 0.0051, 9.0):
        latencies.add(seconds)
    assert latencies.count == 3
    assert latencies.total == pytest.approx(9.0101)
    assert [latencies.up_to[bound] for bound in (0.0025, 0.005, 0.01, 5.0)] == [0, 1, 2, 2]


def test_slow_is_what_takes_longer_than_the_plan_says() -> None:
    slow = course_of([good(0), good(5, 1.5)])
    assert (slow.health, slow.seconds, slow.since) == (Health.SLOW, 1.5, 0)
    assert course_of([good(10, 1.0)], slow).health is Health.ANSWERS


def test_a_clock_that_was_set_back_keeps_nothing_down() -> None:
    assert course_of([bad(1000), bad(1000.25), good(1010), good(10)]).health is Health.ANSWERS


def test_who_could_not_ask_knows_nothing_but_of_an_outage() -> None:
    assert not_known(course_of([good(0)])) == Course()
    assert not_known(course_of([bad(0), bad(1), good(2)])) == course_of([bad(0), bad(1)])


def test_reasons_are_in_one_line_and_bounded() -> None:
    many = Answers(0, 0, {f"10.0.0.1:{port}": "x" * 50 for port in range(100)})
    assert len(many.why) <= 300


@pytest.mark.parametrize(
    ("side", "power", "reason", "kind"),
    [
        (Side.PRIMARY, Power.RUNNING, "", Kind.SERVICE_DOWN),
        (Side.PRIMARY, Power.PAUSED, "", Kind.SERVICE_DOWN),
        (Side.STANDBY, Power.SHUTOFF, "crashed", Kind.SERVICE_DOWN),
        # What is wrong with the machine says more.
        (Side.PRIMARY, Power.SHUTOFF, "crashed", Kind.FAILED),
        (Side.PRIMARY, Power.SHUTOFF, "shutdown", Kind.INTENDED),
        (Side.PRIMARY, Power.UNREACHABLE, "", Kind.UNKNOWN),
        (Side.STANDBY, Power.RUNNING, "", Kind.STALE_PRIMARY),
    ],
)
def test_only_what_answers_is_healthy(side: Side, power: Power, reason: str, kind: Kind) -> None:
    state = ServiceState("web", side=side, seen_running_at=START)
    verdict = judge(state, power, reason, START + 99)
    assert with_health(verdict, state, course_of([bad(0), bad(1)])).kind is kind
    assert with_health(verdict, state, course_of([good(0)])) == verdict
    assert with_health(verdict, state, Course()) == verdict


# -- the journal -----------------------------------------------------------------------------------------------


@pytest.fixture
def book(tmp_path: Path) -> OutageBook:
    return OutageBook(Journal(tmp_path / "journal.db"))


def test_an_outage_has_a_begin_an_end_and_a_reason(book: OutageBook) -> None:
    book.write({"web": (100.0, WHY), "mail": (101.0, "x")}, {})
    assert book.going_on()["web"] == Outage(1, "web", 100.0, None, WHY)
    # A second controller sees the same one.
    book.write({"web": (100.3, WHY)}, {})
    book.write({}, {"web": 130.0})
    book.write({}, {"web": 131.0})
    assert set(book.going_on()) == {"mail"}
    assert book.history("web") == [Outage(1, "web", 100.0, 130.0, WHY)]
    assert [outage.service for outage in book.history()] == ["mail", "web"]
    assert book.totals(1000.0)["web"] == Total(1, 30.0)


def test_what_ceases_again_within_a_minute_was_never_well(book: OutageBook) -> None:
    book.write({"web": (100.0, "one")}, {})
    book.write({}, {"web": 110.0})
    book.write({"web": (160.0, "two")}, {})
    assert book.going_on()["web"] == Outage(1, "web", 100.0, None, "two", 2)
    book.write({}, {"web": 170.0})
    book.write({"web": (240.0, "three")}, {"web": 250.0})
    assert [(o.began_at, o.ended_at, o.times) for o in book.history("web")] == [(240, 250, 1), (100, 170, 2)]


def test_no_outage_ends_before_it_began(book: OutageBook) -> None:
    book.write({"web": (100.0, "one")}, {})
    book.write({}, {"web": 50.0})
    assert book.totals(1000.0) == {"web": Total(1, 0.0)}


def test_history_since(book: OutageBook) -> None:
    for begun in (100.0, 300.0, 500.0):
        book.write({"web": (begun, "x")}, {})
        book.write({}, {"web": begun + 100.0})
    assert [outage.began_at for outage in book.history("web", since=350.0)] == [500, 300]
    assert [outage.began_at for outage in book.history("web", limit=1)] == [500]


def test_each_services_outages_of_a_period(book: OutageBook) -> None:
    for begun in (100.0, 300.0, 500.0):
        book.write({"web": (begun, "x")}, {})
        book.write({}, {"web": begun + 100.0})
    book.write({"db": (50.0, "x"), "mail": (550.0, "x")}, {})
    assert book.of_period(350.0, 560.0) == {
        "web": Total(2, 110.0),
        "db": Total(1, 210.0, goes_on=True),
        "mail": Total(1, 10.0, goes_on=True),
    }
    assert book.of_period(0.0, 1000.0)["web"] == Total(3, 300.0)
    assert "web" not in book.of_period(601.0, 1000.0)


def test_totals_never_go_down(book: OutageBook) -> None:
    book.write({"web": (100.0, "x")}, {})
    book.write({}, {"web": 700.0})
    # It flaps: each time it is seen to answer steadily only after a while, and ceases within a minute.
    written: dict[float, tuple[dict[str, tuple[float, str]], dict[str, float]]] = {}
    for begun in (1000.0, 1075.0, 1150.0):
        written[begun + 6] = {"web": (begun, "x")}, {}
        written[begun + 74] = {}, {"web": begun + 20}
    seen = []
    for at in range(900, 1500):
        if float(at) in written:
            book.write(*written[float(at)])
        seen.append(book.totals(float(at))["web"])
    assert [total.count for total in seen] == sorted(total.count for total in seen)
    assert [total.seconds for total in seen] == sorted(total.seconds for total in seen)
    assert (seen[0], seen[-1]) == (Total(1, 600.0), Total(2, 770.0))


def test_a_failovers_outage_is_written_once(book: OutageBook) -> None:
    for _ in range(2):
        book.write({}, {}, {"web": (100.0, 103.5, "libvirt: shutoff (crashed)")})
    assert [(o.began_at, o.ended_at) for o in book.history()] == [(100.0, 103.5)]
    book.write({"web": (300.0, "x")}, {})
    book.write({}, {}, {"web": (301.0, 303.0, "y")})
    assert len(book.history()) == 2


@pytest.mark.parametrize("seen", [True, False])
def test_a_failover_soon_after_another_ends_the_same_outage(book: OutageBook, seen: bool) -> None:
    """Whether the service was seen to cease before its failover, or not; also to a watcher that begins afterwards."""
    second = {"web": (140.0, 145.0, "libvirt: shutoff (crashed)")}
    book.write({}, {}, {"web": (100.0, 110.0, "x")})
    if seen:
        book.write({"web": (140.0, WHY)}, {})
        book.write({}, {"web": 145.0})
    for _ in range(2):
        book.write({}, {}, second)
    assert [(o.began_at, o.ended_at, o.times) for o in book.history()] == [(100.0, 145.0, 2)]


def test_a_failover_that_is_told_late_shortens_no_outage(book: OutageBook) -> None:
    book.write({"web": (200.0, "x")}, {})
    book.write({}, {"web": 205.0})
    book.write({}, {}, {"web": (170.0, 180.0, "y")})
    assert [(o.began_at, o.ended_at) for o in book.history()] == [(200.0, 205.0)]


# -- the shipped program over a simulated site -----------------------------------------------------------------


def outages(site: Site) -> list[tuple[str, float, float | None]]:
    """Service, begin and end in virtual seconds, oldest first."""
    found = OutageBook(site.journal).history()[::-1]
    return [(o.service, o.began_at - START, None if o.ended_at is None else o.ended_at - START) for o in found]


def test_an_outage_goes_on_over_the_watchers_restart(memory_path: Path) -> None:
    site = Site(memory_path)
    site.watch(10)
    site.change(["web"], {"primary_ports_open": False})
    site.watch(10)
    site.kill_watcher()
    site.run(60)
    site.watch(10)
    assert [entry[2] for entry in outages(site)] == [None]
    site.change(["web"], {"primary_ports_open": True})
    site.watch(10)
    ((service, begin, end),) = outages(site)
    assert service == "web"
    assert 10 <= begin <= 16
    assert end is not None
    assert 90 <= end <= 96


def test_an_outage_is_noticed_within_a_turn_and_a_second(memory_path: Path) -> None:
    site = Site(memory_path)
    for begin in (20.0, 63.0, 107.0):
        site.watch(begin - site.scheduler.time)
        site.change(["web"], {"primary_ports_open": False})
        site.watch(6.0)
        assert OutageBook(site.journal).going_on(), begin
        site.change(["web"], {"primary_ports_open": True})
        site.watch(30)


def test_a_failover_leaves_its_outage(memory_path: Path) -> None:
    site = Site(memory_path)
    site.watch(10)
    site.crash("web")
    site.watch(20)
    ((_, begin, end),) = outages(site)
    assert begin == pytest.approx(10.0, abs=0.3)
    assert end is not None
    assert begin + 1 < end < begin + 5


def test_an_outage_before_a_failover_ends_with_the_standbys_ports(memory_path: Path) -> None:
    site = Site(memory_path)
    site.watch(10)
    site.change(["web"], {"primary_ports_open": False})
    site.watch(10)
    site.crash("web")
    site.watch(20)
    ((_, begin, end),) = outages(site)
    assert 10 <= begin <= 16
    assert end is not None
    assert 21 <= end <= 25


def test_while_a_failover_is_at_work_nothing_else_is_said(memory_path: Path) -> None:
    site = Site(memory_path, world={"standby_ports_open_after": 40.0})
    site.watch(10)
    site.crash("web")
    site.watch(60)
    assert not [line for line in site.log if "does not answer:" in line]
    ((_, begin, end),) = outages(site)
    assert end is not None
    assert end - begin == pytest.approx(41, abs=3)


def test_a_full_disk_loses_no_outage(memory_path: Path) -> None:
    site = Site(memory_path)
    site.watch(10)
    site.change(["web"], {"primary_ports_open": False, "disk_full": True})
    site.watch(10)
    site.change(["web"], {"primary_ports_open": True})
    site.watch(20)
    site.change(["web"], {"disk_full": False})
    site.watch(5)
    ((_, begin, end),) = outages(site)
    assert 10 <= begin <= 16
    assert end is not None
    assert 20 <= end <= 26


def test_two_watchers_write_one_outage(memory_path: Path) -> None:
    site = Site(memory_path)
    site.watch(5)
    site.start_another_watcher()
    site.watch(5)
    site.change(["web"], {"primary_ports_open": False})
    site.watch(20)
    site.change(["web"], {"primary_ports_open": True})
    site.watch(20)
    assert len(outages(site)) == 1
    assert outages(site)[0][2] is not None


# -- real threads ----------------------------------------------------------------------------------------------


class Probes:
    """The looks at `hangs` do not end before `release` is set."""

    def __init__(self) -> None:
        self.asked: dict[str, int] = {}
        self.release = threading.Event()
        self.fails = False

    def ask_patiently(self, targets: Sequence[Any], _at_most: float) -> list[Result]:
        address = targets[0][0]
        self.asked[address] = self.asked.get(address, 0) + 1
        if address == "10.10.0.10":
            self.release.wait(60)
        if self.fails:
            raise ExternalError("10.10.0.11:80 cannot be asked: too many open files")
        return [Result(address, "", reached=True)]


def watch_of(folder: Path, probes: Probes) -> HealthWatch:
    site = Site(folder, {"hangs": {}, "web": {}})
    detection = site.plan.detection.model_copy(update={"probe_every": 0.05})
    plan = site.plan.model_copy(update={"detection": detection})
    env = SimpleNamespace(
        plan=plan, journal=Journal(folder / "other.db"), clock=SystemClock(), runtime=THREADS, probes=probes
    )
    return HealthWatch(cast("Any", env), Rounds())


@contextmanager
def running(watch: HealthWatch, probes: Probes) -> Iterator[None]:
    """Ends it whatever hangs."""
    stop = threading.Event()
    task = THREADS.spawn(lambda: watch.run(stop), "services")
    try:
        yield
    finally:
        probes.release.set()
        stop.set()
        task.join()


def test_one_that_hangs_is_asked_once_and_holds_up_no_other(tmp_path: Path) -> None:
    probes = Probes()
    watch = watch_of(tmp_path, probes)
    with running(watch, probes):
        wait_for(lambda: probes.asked.get("10.10.0.11", 0) >= 5, "five looks at the other")
        assert probes.asked["10.10.0.10"] == 1
        assert watch.courses["web"].health is Health.ANSWERS
        assert watch.courses["hangs"] == Course()
        assert watch.latencies["web"].count >= 4
        probes.release.set()
        wait_for(lambda: watch.courses["hangs"].health is Health.ANSWERS, "the one that hung")


def test_one_whose_probe_hangs_is_not_said_to_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_watch, "HANGS_AFTER", 0.2)
    probes = Probes()
    probes.release.set()
    watch = watch_of(tmp_path, probes)
    with running(watch, probes):
        wait_for(lambda: watch.courses["hangs"].health is Health.ANSWERS, "a good look")
        probes.release.clear()
        wait_for(lambda: watch.courses["hangs"] == Course(), "nothing known")
        assert watch.courses["web"].health is Health.ANSWERS
        probes.release.set()
        wait_for(lambda: watch.courses["hangs"].health is Health.ANSWERS, "a good look again")


def test_who_cannot_ask_takes_nothing_for_down(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    probes = Probes()
    probes.release.set()
    watch = watch_of(tmp_path, probes)
    with running(watch, probes):
        wait_for(lambda: watch.courses["web"].health is Health.ANSWERS, "a good look")
        probes.fails = True
        wait_for(lambda: watch.courses["web"] == Course(), "nothing known")
        probes.fails = False
        wait_for(lambda: watch.courses["web"].health is Health.ANSWERS, "a good look again")
    said = [record.message for record in caplog.records if "web: whether it answers is not known" in record.message]
    assert len(said) == 1
    assert OutageBook(Journal(tmp_path / "other.db")).history() == []


def test_no_more_are_asked_at_once_than_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_watch, "AT_ONCE", 1)
    probes = Probes()
    watch = watch_of(tmp_path, probes)
    with running(watch, probes):
        wait_for(lambda: "10.10.0.10" in probes.asked, "the one that hangs")
        before = dict(probes.asked)
        time.sleep(0.3)
        assert probes.asked == before


@pytest.mark.parametrize(
    ("ended", "now", "seconds"),
    # A clock that was set back makes it no less than nothing.
    [(None, 130.0, 30.0), (110.0, 130.0, 10.0), (None, 90.0, 0.0), (99.0, 130.0, 0.0), (100.25, 130.0, 0.25)],
)
def test_how_long_an_outage_lasts(ended: float | None, now: float, seconds: float) -> None:
    assert Outage(1, "web", 100.0, ended, WHY).seconds(now) == seconds
