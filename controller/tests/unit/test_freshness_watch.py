"""How old standbys were, hour by hour: what is noted, what of it survives, and that it stays small."""

from __future__ import annotations

import json
import sqlite3
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from journal_cases import finish

from vcrecovery.core.ages import FIRST, GROWTH, Ages, added, bucket_of, of_ages
from vcrecovery.core.episode import Request
from vcrecovery.core.power import Power
from vcrecovery.core.sighting import Sighting
from vcrecovery.detect import freshness_watch
from vcrecovery.detect.freshness_watch import EVERY, FreshnessWatch, keep_noting
from vcrecovery.errors import ExternalError
from vcrecovery.plan.load import load_plan
from vcrecovery.store.freshness_book import KEPT, NAME, FreshnessBook, hour_of
from vcrecovery.store.journal import Journal
from vcrecovery.transfer.heartbeat_copy import HEARTBEAT

NOW = 1_795_317_124.0
AGE = st.floats(0, 1e9)


@example([0.8], 1.0)
@given(st.lists(AGE, min_size=1), st.floats(0, 1))
def test_a_percentile_is_never_too_low_and_little_too_high(ages: list[float], part: float) -> None:
    told = of_ages(ages).percentile(part)
    assert told is not None
    assert told <= max(ages)
    assert sum(age <= told for age in ages) >= part * len(ages)
    assert of_ages(ages).percentile(1.0) == max(ages)


@given(st.floats(0.1, 2e7))
def test_a_bucket_is_a_fifth_wide(age: float) -> None:
    one = of_ages([age, 1e8])
    told = one.percentile(0.5)
    assert told is not None
    assert age * 0.999999 <= told <= age * GROWTH * 1.000001


@given(st.lists(st.lists(st.one_of(st.none(), AGE)), max_size=4))
def test_hours_add_up(hours: list[list[float | None]]) -> None:
    together = of_ages([age for hour in hours for age in hour])
    found = added(of_ages(hour) for hour in hours)
    assert (dict(found.buckets), found.most, found.unknown) == (
        dict(together.buckets),
        together.most,
        together.unknown,
    )


def test_where_a_bucket_ends() -> None:
    assert [bucket_of(age) for age in (0.0, FIRST, FIRST * 1.01)] == [0, 0, 1]
    assert [bucket_of(FIRST * GROWTH**number) for number in range(100)] == list(range(100))
    assert [of_ages([age]).percentile(0.5) for age in (5.0, 1e9)] == [5.0, 1e9]
    assert added([]) == Ages()


def test_no_look_has_no_percentile() -> None:
    assert Ages().percentile(0.5) is None
    assert of_ages([None]).percentile(0.99) is None


def test_what_is_written_adds_up_and_ends_after_400_days(tmp_path: Path) -> None:
    book = FreshnessBook(tmp_path)
    hour = hour_of(NOW)
    book.add({("web", hour): of_ages([1.0, None]), ("web", hour_of(NOW - KEPT) - 1): of_ages([5.0])}, NOW)
    FreshnessBook(tmp_path).add({("web", hour): of_ages([1.0, 700.0])}, NOW)
    assert FreshnessBook(tmp_path).since(0.0) == {
        ("web", hour): Ages({bucket_of(1.0): 2, bucket_of(700.0): 1}, 700.0, 1)
    }
    assert book.since(NOW + 3600) == {}


def test_400_days_of_a_service_are_about_a_megabyte(tmp_path: Path) -> None:
    book = FreshnessBook(tmp_path)
    ages = of_ages([1.0 + n / 36 for n in range(360)])
    hours = range(hour_of(NOW - KEPT), hour_of(NOW) + 1)
    book.add({("shop-database", hour): ages for hour in hours}, NOW)
    assert book.since(0.0)["shop-database", hours[0]] == ages
    book.close()
    assert (tmp_path / NAME).stat().st_size < 1_200_000


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"no database" * 1000)
    with pytest.raises(ExternalError, match="it only holds how fresh standbys were"):
        FreshnessBook(tmp_path)


class Clock:
    """Now, and seconds that only go on."""

    def __init__(self) -> None:
        self.time = NOW

    def now(self) -> float:
        return self.time

    def steady(self) -> float:
        return self.time


class Here:
    """LXD on this machine; whoever asks it anything has done too much."""

    is_here = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def rootfs(self, _pool: str, name: str) -> Path:
        return self._folder / name


class Elsewhere:
    is_here = False

    def __init__(self) -> None:
        self.asked = 0
        self.said: bytes | None = None

    def template(self, _name: str, _template: str) -> bytes | None:
        self.asked += 1
        if self.said is None:
            raise ExternalError("no answer")
        return self.said


@pytest.fixture
def env(plan_file: Path, tmp_path: Path) -> Any:
    plan = load_plan(plan_file)
    marker = tmp_path / "roots/web" / HEARTBEAT.lstrip("/")
    marker.parent.mkdir(parents=True)
    return SimpleNamespace(
        plan=plan,
        clock=Clock(),
        journal=Journal(plan.state_dir / "journal.db"),
        lxd={"sec1": Here(tmp_path / "roots")},
        marker=marker,
    )


def turns(env: Any, watch: FreshnessWatch, seconds: float, age: float | None = 3.0) -> None:
    for _ in range(int(seconds / EVERY)):
        if age is not None:
            env.marker.write_text(json.dumps({"at": env.clock.time - age}))
        watch.turn()
        env.clock.time += EVERY


def noted(env: Any) -> Ages:
    return added(FreshnessBook(env.plan.state_dir).since(0.0).values())


def test_a_kill_loses_at_most_a_minute(env: Any) -> None:
    watch = FreshnessWatch(env, FreshnessBook(env.plan.state_dir))
    turns(env, watch, 600)
    assert noted(env).count >= 54
    assert noted(env).most == 3.0


def test_all_services_are_written_in_one_transaction_a_minute(env: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[float] = []
    monkeypatch.setattr(FreshnessBook, "add", lambda *_: written.append(env.clock.time))
    turns(env, FreshnessWatch(env, FreshnessBook(env.plan.state_dir)), 3600)
    assert len(written) <= 60


@pytest.mark.parametrize("said", [b"", b"[[[", b'{"at": 1e400}', json.dumps({"at": NOW + 9e5}).encode()])
def test_what_tells_no_age_is_counted_as_unknown(env: Any, said: bytes) -> None:
    env.marker.write_bytes(said)
    turns(env, FreshnessWatch(env, FreshnessBook(env.plan.state_dir)), 120, age=None)
    assert (noted(env).count, noted(env).unknown > 0) == (0, True)


def sends(env: Any, watch: FreshnessWatch, boot: str, *totals: object) -> None:
    for total in totals:
        env.marker.write_text(json.dumps({"at": env.clock.time - 3, "boot": boot, "sent": total}))
        watch.turn()
        env.clock.time += EVERY
    watch.write()


def sent(env: Any) -> tuple[int, float]:
    return FreshnessBook(env.plan.state_dir).sent_between(NOW, env.clock.time + 1)["web"]


def test_what_is_sent_adds_up_over_boots_and_watchers(env: Any) -> None:
    book = FreshnessBook(env.plan.state_dir)
    watch = FreshnessWatch(env, book)
    # Of when the first thousand are nobody knows.
    sends(env, watch, "one", 1000, 1500, 1500)
    # A watcher that is killed has not written the last count, nor its bytes.
    env.marker.write_text(json.dumps({"at": env.clock.time, "boot": "one", "sent": 1700}))
    watch.turn()
    sends(env, FreshnessWatch(env, book), "one", 1800)
    # Two boots later the count is greater than it was: all of it is new.
    sends(env, FreshnessWatch(env, book), "two", 5000)
    # The slice was stopped and started.
    sends(env, FreshnessWatch(env, book), "two", 40)
    for nonsense in (None, "many", -1, 1e300, True):
        sends(env, FreshnessWatch(env, book), "two", nonsense)
    assert sent(env)[0] == 500 + 300 + 5000 + 40
    assert NOW <= sent(env)[1] <= NOW + 60


def test_a_vm_that_says_what_it_likes_stops_no_figures(env: Any) -> None:
    watch = FreshnessWatch(env, FreshnessBook(env.plan.state_dir))
    for turn in range(3000):
        sends(env, watch, str(turn), 1 << 53)
    assert sent(env)[0] <= 10 << 50
    assert noted(env).count == 3000


def test_bytes_are_counted_in_the_hour_in_which_they_are_heard_of(env: Any) -> None:
    book = FreshnessBook(env.plan.state_dir)
    sends(env, FreshnessWatch(env, book), "one", 0, 10)
    env.clock.time += 3600
    sends(env, FreshnessWatch(env, book), "one", 17)
    assert book.sent_between(env.clock.time - 60, env.clock.time)["web"][0] == 7
    book.add_sent({}, {}, env.clock.time + KEPT + 7200)
    assert sent(env)[0] == 0


def test_a_primary_that_is_off_ages_nothing(env: Any) -> None:
    env.journal.saw({"web": (Sighting(Power.SHUTOFF, "shutdown", NOW, NOW, "hv1"), None)})
    turns(env, FreshnessWatch(env, FreshnessBook(env.plan.state_dir)), 120)
    assert noted(env) == Ages({})


def test_a_standby_that_serves_has_no_age(env: Any) -> None:
    finish(env.journal, env.journal.open("web", "x", Request(), NOW), NOW)
    turns(env, FreshnessWatch(env, FreshnessBook(env.plan.state_dir)), 120)
    assert noted(env) == Ages({})


def test_lxd_elsewhere_is_asked_once_a_minute(env: Any) -> None:
    lxd = env.lxd["sec1"] = Elsewhere()
    watch = FreshnessWatch(env, FreshnessBook(env.plan.state_dir))
    turns(env, watch, 300)
    assert lxd.asked == 5
    lxd.said = json.dumps({"at": env.clock.time - 7}).encode()
    turns(env, watch, 120)
    assert (noted(env).most >= 7, noted(env).unknown) == (True, 5)


def test_a_full_disk_loses_nothing_that_can_be_written_later(env: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = FreshnessWatch(env, FreshnessBook(env.plan.state_dir))
    add = FreshnessBook.add

    def full(*_: object) -> None:
        raise ExternalError("disk is full")

    monkeypatch.setattr(FreshnessBook, "add", full)
    with pytest.raises(ExternalError):
        turns(env, watch, 120)
    monkeypatch.setattr(FreshnessBook, "add", add)
    turns(env, watch, 120)
    assert noted(env).count >= 12


def test_it_goes_on_after_trouble_and_writes_at_its_end(env: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    env.marker.write_text(json.dumps({"at": NOW - 3}))
    stop = threading.Event()
    real, tries = FreshnessWatch.turn, 0

    def turn(self: FreshnessWatch) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise sqlite3.OperationalError("disk I/O error")
        real(self)
        stop.set()

    monkeypatch.setattr(FreshnessWatch, "turn", turn)
    monkeypatch.setattr(freshness_watch, "EVERY", 0.01)
    keep_noting(env, stop)
    assert noted(env).count == 1


@given(st.lists(st.lists(st.one_of(st.none(), AGE)), max_size=5))
def test_days_are_the_sums_of_their_hours(hours: list[list[float | None]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        book, first = FreshnessBook(Path(folder)), hour_of(NOW)
        for n, hour in enumerate(hours):
            book.add({("web", first + n): of_ages(hour)}, NOW)
        found = book.summed(0.0, lambda hour: hour < first + 2)
        book.close()
    for early, parts in ((True, hours[:2]), (False, hours[2:])):
        if parts:
            assert found["web", early] == added(of_ages(hour) for hour in parts)
