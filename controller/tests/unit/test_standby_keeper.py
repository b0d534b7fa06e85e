"""What keeps the standbys goes on, whatever one of them, its clock or the machine's does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from set_clock import SetClock

from lab.waiting import wait_for
from vcrecovery.drivers.lxd import Instance
from vcrecovery.errors import BusyError, ExternalError
from vcrecovery.plan.load import load_plan
from vcrecovery.plan.model import Plan
from vcrecovery.plan.modes import Mode
from vcrecovery.standby import container_units, package_watch, restore_point_loop
from vcrecovery.standby import keeper as standby_keeper
from vcrecovery.standby.container import READY_KEY, ROLE_KEY, STANDBY
from vcrecovery.standby.keeper import Looked, StandbyKeeper
from vcrecovery.standby.modes import Act, ChosenModes, Level
from vcrecovery.standby.package_changes import Packages, Settling
from vcrecovery.standby.package_watch import PackageWatch
from vcrecovery.store.journal import Journal
from vcrecovery.store.lock import one_keeper

#: More than there are workers, so that some have one in common.
NAMES = [f"s{number}" for number in range(9)]


class Containers:
    """Cold standbys; `trouble` may raise what it likes when one is asked for."""

    name, is_here = "sec1", True

    def __init__(self) -> None:
        self.looked: list[str] = []
        self.status = "Stopped"
        self.trouble: Callable[[str], None] = lambda _name: None

    def get(self, name: str) -> Instance:
        self.looked.append(name)
        self.trouble(name)
        config = {ROLE_KEY: STANDBY, READY_KEY: "true"}
        return Instance(name, running=False, status=self.status, config=config, devices={})

    def rootfs(self, _pool: str, _name: str) -> Path:
        return Path("/none")

    def snapshots(self, name: str) -> list[str]:
        self.get(name)
        return []


@pytest.fixture
def plan(plan_file: Path) -> Plan:
    data = load_plan(plan_file).model_dump(mode="json")
    web = {**data["services"]["web"], "mode": "cold", "dns": [], "restore_points": {"keep": 1, "every": "1s"}}
    data["services"] = {
        name: {
            **web,
            "primary": {
                **web["primary"],
                "uuid": f"6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e{number:04}",
                "address": f"10.9.0.{number}",
            },
            "standby": {**web["standby"], "address": f"10.20.0.{number + 10}"},
        }
        for number, name in enumerate(NAMES)
    }
    return Plan.model_validate(data)


def keeper_of(plan: Plan, lxd: Containers, clock: SetClock) -> StandbyKeeper:
    servers: Any = {"sec1": lxd}
    return StandbyKeeper(plan, servers, Journal(plan.state_dir / "journal.db"), clock)


def is_there(lxd: Containers, run: Callable[[threading.Event], object], what: str, done: Callable[[], bool]) -> None:
    """Runs it until `done`."""
    stop = threading.Event()
    thread = threading.Thread(target=run, args=(stop,), daemon=True)
    thread.start()
    try:
        wait_for(done, what)
    finally:
        stop.set()
        thread.join(60)


def breaks(name: str) -> None:
    if name == "s0":
        raise KeyError("status")


def test_one_that_breaks_the_keeper_holds_no_other_up(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standby_keeper, "EVERY", 0.01)
    lxd = Containers()
    lxd.trouble = breaks
    keeper = keeper_of(plan, lxd, SetClock())
    is_there(lxd, keeper.run, "every other", lambda: all(lxd.looked.count(name) > 1 for name in NAMES[1:]))


def test_one_that_breaks_the_look_at_packages_holds_no_other_up(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_watch, "EVERY", 0.01)
    lxd = Containers()
    lxd.trouble = breaks
    servers: Any = {"sec1": lxd}
    watch = PackageWatch(plan, servers, SetClock())
    is_there(lxd, watch.run, "all others", lambda: all(lxd.looked.count(name) > 1 for name in NAMES[1:]))


def test_one_that_breaks_the_restore_points_holds_no_other_up(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore_point_loop, "_LOOK_EVERY", 0.01)
    lxd = Containers()
    lxd.trouble = breaks
    servers: Any = {"sec1": lxd}

    def run(stop: threading.Event) -> None:
        restore_point_loop.keep_making(plan, servers, Journal(plan.state_dir / "journal.db"), SetClock(), stop)

    is_there(lxd, run, "all others", lambda: all(lxd.looked.count(name) > 1 for name in NAMES[1:]))


def test_a_clock_that_was_set_back_puts_nothing_off(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standby_keeper, "EVERY", 0.01)
    lxd, clock = Containers(), SetClock()

    def is_away(_name: str) -> None:
        raise ExternalError("LXD does not answer")

    lxd.trouble = is_away
    keeper = keeper_of(plan, lxd, clock)

    def rounds(count: int) -> Callable[[], bool]:
        return lambda: all(lxd.looked.count(name) >= count for name in NAMES)

    def run(stop: threading.Event) -> None:
        keeper.run(stop)

    is_there(lxd, run, "the first look", rounds(1))
    # A day back, and longer than anything is put off.
    clock.set_by = -86400.0
    clock.time += 400.0
    is_there(lxd, run, "the next look", rounds(2))


@pytest.mark.parametrize("mode", ["cold", "hot", "frozen"])
@pytest.mark.parametrize("status", ["Stopping", "Error"])
def test_one_that_is_changing_or_broken_is_not_in_its_mode(plan: Plan, mode: str, status: str) -> None:
    lxd = Containers()
    lxd.status = status
    keeper = keeper_of(plan, lxd, SetClock())
    ChosenModes(plan.state_dir).write("s1", Mode(mode))
    looked = keeper.look("s1")
    assert (looked.there, looked.act, looked.sentence) == (False, None, f"the standby is {status.lower()}")


class Booted(Containers):
    """Containers that run. Whoever is at work inside one is not done before the event is set."""

    def __init__(self) -> None:
        super().__init__()
        self.status = "Running"
        self.config = {ROLE_KEY: STANDBY, READY_KEY: "true"}
        self.at_work, self.done, self.frozen = 0, threading.Event(), 0
        self.restarted = 0

    def get(self, name: str) -> Instance:
        self.looked.append(name)
        running = self.status == "Running"
        return Instance(name, running=running, status=self.status, config=dict(self.config), devices={})

    def ask(self, _instance: str, _command: Sequence[str], _timeout: float) -> tuple[int, str]:
        self.at_work += 1
        assert self.done.wait(60)
        return 0, "now 5\n"

    def configure(self, _instance: Instance, config: dict[str, str]) -> None:
        self.config.update(config)

    def freeze(self, _instance: str, _timeout: float) -> None:
        self.status = "Frozen"
        self.frozen += 1

    def restart(self, _instance: str, _timeout: float) -> None:
        self.restarted += 1


@contextmanager
def at_work(plan: Plan, lxd: Booted) -> Iterator[list[Looked]]:
    """A keeper refreshes the standby s1, which is to be frozen, until `lxd.done`; what that came to."""
    ChosenModes(plan.state_dir).write("s1", Mode.FROZEN)
    looked: list[Looked] = []
    keeper = keeper_of(plan, lxd, SetClock(10.0))
    thread = threading.Thread(target=lambda: looked.append(keeper.look("s1")))
    thread.start()
    try:
        wait_for(lambda: lxd.at_work, "the refresh")
        yield looked
    finally:
        lxd.done.set()
        thread.join(60)


def test_two_keepers_are_never_at_work_in_one_container(plan: Plan) -> None:
    lxd = Booted()
    verb = keeper_of(plan, lxd, SetClock(10.0))
    with at_work(plan, lxd) as looked:
        with pytest.raises(BusyError, match=r"process \d+ is still at work on the standby of s1"):
            verb.look("s1")
        assert lxd.at_work == 1
    assert [one.act for one in looked] == [Act.REFRESH]
    # What the other has done need not be done again.
    assert verb.look("s1").act is Act.FREEZE
    assert verb.look("s1").there
    assert (lxd.at_work, lxd.frozen) == (1, 1)


def test_what_another_keeper_has_just_done_is_not_done_again(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    lxd = Booted()
    keeper, other = (keeper_of(plan, lxd, SetClock(10.0)) for _ in range(2))
    ChosenModes(plan.state_dir).write("s1", Mode.FROZEN)
    lxd.done.set()

    @contextmanager
    def late(state_dir: Path, service: str, clock: SetClock) -> Iterator[None]:
        """Held after the other keeper has refreshed and frozen it."""
        monkeypatch.setattr(standby_keeper, "one_keeper", one_keeper)
        assert [other.look(service).act for _ in range(2)] == [Act.REFRESH, Act.FREEZE]
        with one_keeper(state_dir, service, clock=clock):
            yield

    monkeypatch.setattr(standby_keeper, "one_keeper", late)
    looked = keeper.look("s1")
    assert (looked.act, looked.sentence) == (None, "the standby was just changed by another client")
    assert lxd.at_work == 1


def test_one_in_which_its_keeper_is_at_work_is_not_restarted(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    lxd = Booted()
    found = iter(["1", "2", "2"])
    monkeypatch.setattr(package_watch, "read_packages", lambda _tree: Packages(next(found)))
    servers: Any = {"sec1": lxd}
    watch = PackageWatch(plan, servers, SetClock(), lambda: Settling(0.0))
    watch.look("s1")
    with at_work(plan, lxd), pytest.raises(BusyError, match="still at work on the standby of s1"):
        watch.look("s1")
    assert lxd.restarted == 0
    watch.look("s1")
    assert lxd.restarted == 1


class Said:
    """A container that prints what its primary wants it to."""

    name, client = "sec1", "lxc"

    def __init__(self, text: str) -> None:
        self.text = text

    def ask(self, _instance: str, _command: Sequence[str], _timeout: float) -> tuple[int, str]:
        return 0, self.text

    def status_of(self, _instance: str, _command: Sequence[str], _timeout: float) -> int:
        return 10

    def file(self, _instance: str, _path: str) -> bytes | None:
        return self.text.encode()


@pytest.mark.parametrize("clock", ["1.2.3", "now", "nan", "inf", "-1"])
def test_a_containers_clock_may_say_what_it_likes(clock: str) -> None:
    with pytest.raises(ExternalError, match=r"container web of sec1 could not be started"):
        container_units.refresh(Said(f"now {clock}\n"), "web", 1.0, Level.ALL, [], [], 1.0)


def test_what_a_container_says_is_short_and_harmless() -> None:
    lines = "\n".join(["now 5", "started \x1b[2Ja.service", *(["x" * 10_000] * 100)])
    did = container_units.refresh(Said(lines), "web", 1.0, Level.ALL, [], [], 1.0)
    assert did.at == 5.0
    assert did.words.startswith("started ?[2Ja.service; xxx")
    assert len(did.words) < 50_000
    assert did.words.isprintable()
    assert len(container_units.promote(Said(lines), "web", 1.0, 1.0)) < 50_000
