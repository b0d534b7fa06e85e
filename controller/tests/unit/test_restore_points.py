"""Restore points: which there are, which is meant, and the watcher's loop."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from vcrecovery.core.episode import Outcome, Request
from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.lxd import Instance, LxdServer
from vcrecovery.errors import BusyError, RefusedError
from vcrecovery.operations.environment import Environment
from vcrecovery.plan.load import load_plan
from vcrecovery.plan.model import Plan
from vcrecovery.standby import restore_point_loop
from vcrecovery.standby.container import READY_KEY, ROLE_KEY, STANDBY
from vcrecovery.standby.restore_points import Made, RestorePoint, age_in_words, find, make, restore_points
from vcrecovery.store.lock import one_keeper, service_lock
from vcrecovery.transfer.freshness import RECONCILE
from vcrecovery.transfer.heartbeat_copy import HEARTBEAT


class Snapshots(LxdServer):
    """A server that knows these snapshots."""

    def __init__(self, *names: str) -> None:
        super().__init__("sec1", Path("/none"), SystemClock())
        self._names = list(names)

    def snapshots(self, instance: str) -> list[str]:
        return list(self._names)


def plan(plan_file: Path, engine: str = "lsyncd", **points: object) -> Plan:
    found = load_plan(plan_file)
    data = found.model_dump(mode="json")
    data["services"]["web"]["sync"] |= {"engine": engine, "reconcile": 60}
    data["services"]["web"]["restore_points"] = points
    return Plan.model_validate(data)


def test_what_others_have_made_is_no_restore_point() -> None:
    names = ["vcr-20261121T130000Z", "snap0", "vcr-new-1795266000", "vcr-20261121T120000Z", "vcr-20261321T120000Z"]
    found = restore_points(Snapshots(*names), "web")
    assert [point.name for point in found] == ["vcr-20261121T120000Z", "vcr-20261121T130000Z"]
    assert found[1].taken_at - found[0].taken_at == 3600


def test_the_newest_and_one_by_name() -> None:
    points = [RestorePoint(1.0, "a"), RestorePoint(2.0, "b")]
    assert find(points, "web", "latest").name == "b"
    assert find(points, "web", "a").name == "a"
    with pytest.raises(RefusedError, match=r"no restore point 'c' \(there are: b, a\); see"):
        find(points, "web", "c")
    with pytest.raises(RefusedError, match=r"no restore point \(there are: none\)"):
        find([], "web", "latest")


@pytest.mark.parametrize(
    ("seconds", "words"), [(-5, "0 s"), (59, "59 s"), (90, "1.5 min"), (5400, "1.5 h"), (129600, "1.5 d")]
)
def test_ages(seconds: float, words: str) -> None:
    assert age_in_words(seconds) == words


def test_a_service_that_keeps_none(plan_file: Path) -> None:
    assert "keep is 0" in making(plan(plan_file), Snapshots()).why


NOW = 1_790_000_000.0


class SetClock(SystemClock):
    """Shows the time that it was set to."""

    def now(self) -> float:
        return NOW


class Making(Snapshots):
    """Its standby is off, and whole at this moment."""

    def get(self, instance: str) -> Instance:
        config = {ROLE_KEY: STANDBY, READY_KEY: "true"}
        return Instance(instance, running=False, status="Stopped", config=config, devices={})

    report: Mapping[str, object] | None = None

    def file(self, instance: str, path: str) -> bytes | None:
        found = {HEARTBEAT: {"at": NOW - 1}, RECONCILE: self.report}.get(path)
        return json.dumps(found).encode() if found else None

    def take_snapshot(self, instance: str, snapshot: str, timeout: float) -> None:
        self._names.append(snapshot)

    def rename_snapshot(self, instance: str, snapshot: str, name: str) -> None:
        self._names[self._names.index(snapshot)] = name

    def delete_snapshot(self, instance: str, snapshot: str, timeout: float) -> None:
        self._names.remove(snapshot)


def named(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("vcr-%Y%m%dT%H%M%SZ")


def making(plan: Plan, lxd: LxdServer) -> Made:
    return make(plan, "web", lxd, Environment(plan).journal, SetClock())


def test_one_that_an_open_failover_goes_back_to_is_not_removed(plan_file: Path) -> None:
    """Its fence may take until a person gives their word; then nothing would be there to go back to."""
    wanted = plan(plan_file, keep=2, every="1h")
    asked, other = named(NOW - 3 * 3600), named(NOW - 2 * 3600)
    lxd, journal = Making(asked, other, named(NOW - 3600)), Environment(wanted).journal
    episode = journal.open("web", "asked", Request(force=True, restore_point=asked), NOW)
    assert making(wanted, lxd).removed == [other]
    assert asked in lxd.snapshots("web")
    journal.close(episode, Outcome.GIVEN_UP, "not wanted", NOW)
    lxd = Making(asked, other, named(NOW - 3600))
    assert making(wanted, lxd).removed == [asked, other]


def test_none_is_removed_while_a_controller_is_at_work(plan_file: Path) -> None:
    """It may have chosen one already, which its journal does not say yet. The next run removes what is too many."""
    wanted, points = plan(plan_file, keep=1, every="1h"), [named(NOW - 7200), named(NOW - 3600)]
    lxd = Making(*points)
    with service_lock(wanted.state_dir, "web"):
        made = making(wanted, lxd)
    assert made.point is not None
    assert not made.removed
    assert lxd.snapshots("web") == [*points, named(NOW)]


def test_points_of_a_clock_that_was_set_back_keep_none_from_being_made(plan_file: Path) -> None:
    wanted, year = plan(plan_file, keep=2, every="1h"), 365 * 86400
    lxd = Making(named(NOW - 7200), named(NOW + year), named(NOW + year + 3600))
    made = making(wanted, lxd)
    assert made.point is not None
    assert made.point.name == named(NOW)
    assert sorted(lxd.snapshots("web")) == [named(NOW - 7200), named(NOW)]
    assert "nothing to do: the newest is 0 s old" in making(wanted, lxd).why
    # A clock that was corrected by seconds is no reason to make another.
    lxd = Making(named(NOW + 30))
    assert "nothing to do: the newest is 0 s old" in making(wanted, lxd).why


def test_none_is_made_while_a_keeper_is_at_work(plan_file: Path) -> None:
    wanted, lxd = plan(plan_file, keep=1, every="1h"), Making()
    with one_keeper(wanted.state_dir, "web"), pytest.raises(BusyError, match="still at work on the standby of web"):
        making(wanted, lxd)
    assert lxd.snapshots("web") == []
    assert making(wanted, lxd).point is not None


@pytest.mark.parametrize(
    ("engine", "ended", "error", "why"),
    [
        ("periodic", None, None, "not now: a sync goes on, or was cut off"),
        ("periodic", NOW - 5, "no room", "not now: the last sync has failed: no room"),
        ("periodic", NOW - 5, None, ""),
        # Of a heartbeat that is whole, a comparison beside lsyncd leaves nothing in doubt.
        ("lsyncd", None, None, ""),
    ],
)
def test_none_is_made_of_a_sync_that_has_not_ended(
    plan_file: Path, engine: str, ended: float | None, error: str | None, why: str
) -> None:
    wanted, lxd = plan(plan_file, engine, keep=1, every="1h"), Making()
    lxd.report = {"began": NOW - 20, "ended": ended, "error": error}
    made = making(wanted, lxd)
    assert (made.point is None, made.why if why else "") == (bool(why), why)


class SomeRounds(threading.Event):
    rounds = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.rounds += 1
        return self.rounds > 3


def keep_making(plan: Plan, stop: threading.Event) -> None:
    env = Environment(plan)
    restore_point_loop.keep_making(plan, env.lxd, env.journal, env.clock, stop)


def test_a_loop_that_is_told_to_end_looks_at_nothing(plan_file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Else it would say that LXD does not answer."""
    stop = threading.Event()
    stop.set()
    with caplog.at_level(logging.WARNING):
        keep_making(plan(plan_file, keep=3), stop)
    assert not caplog.records


def test_what_no_failback_has_kept_asks_nobody(plan_file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Here nobody would answer."""
    with caplog.at_level(logging.WARNING):
        keep_making(plan(plan_file), SomeRounds())
    assert not caplog.records


def test_the_loop_says_a_failure_once(plan_file: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        keep_making(plan(plan_file, keep=3), SomeRounds())
    (record,) = caplog.records
    assert record.getMessage().startswith("web: no restore point: LXD on secondary sec1")
