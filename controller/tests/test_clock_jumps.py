"""A clock that is set an hour forward or back, anywhere in a failover: the promises hold, and nothing hangs."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from simulated.site import Site
from vcrecovery.core.episode import Step
from vcrecovery.core.service_state import Side
from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.lxd.instances import RUNNING, STOPPED
from vcrecovery.drivers.probe import Probes
from vcrecovery.operations.steps.ages import ages_of
from vcrecovery.plan.probes import Port
from vcrecovery.transfer.freshness import AHEAD_AT_MOST, Freshness

HOUR = 3600.0
#: As in test_kill_anywhere: six steps with four boundaries each.
EVERY_BOUNDARY = range(1, 25)


def crashed(folder: Path) -> Site:
    site = Site(folder)
    site.watch(1)
    site.crash("web")
    return site


def is_done(site: Site) -> None:
    state, web = site.journal.state("web"), site.world.services["web"]
    assert (state.side, state.open_episode) == (Side.STANDBY, None), site.log
    assert (web.starts, web.switches) == (1, 1), site.log


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
@pytest.mark.parametrize("at", EVERY_BOUNDARY)
def test_in_the_middle_of_a_failover(at: int, jump: float, memory_path: Path) -> None:
    site = crashed(memory_path)

    def jumps() -> None:
        site.scheduler.set_by += jump

    site.then[str(at)] = [jumps]
    site.watch(3)
    if site.journal.state("web").side is Side.PRIMARY:
        # Set back before the signals were confirmed: how old the standby is cannot be known.
        assert jump < 0
        assert site.world.services["web"].starts == 0
        assert any("in the future" in line for line in site.log), site.log
        site.failover(force=True)
    is_done(site)
    assert site.journal.newest_done("web") is not None


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
@pytest.mark.parametrize("at", EVERY_BOUNDARY)
def test_while_no_controller_runs(at: int, jump: float, memory_path: Path) -> None:
    site = crashed(memory_path)
    site.kill_at = at
    site.watch(3, again=False)
    site.scheduler.set_by += jump

    def steps(step: Step) -> int:
        return sum(r.step is step and r.ok for e in site.journal.history("web") for r in e.steps)

    fences, started = steps(Step.FENCE), site.world.services["web"].starts
    site.watch(3)
    if site.journal.state("web").side is Side.PRIMARY:
        site.failover(force=True)
    is_done(site)
    if not started:
        # A fence of an hour ago, or of an hour to come, is none.
        assert steps(Step.FENCE) > fences


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_before_the_crash(jump: float, memory_path: Path) -> None:
    site = Site(memory_path)
    site.watch(1)
    web = site.world.services["web"]
    web.syncs = False
    site.scheduler.set_by += jump
    site.crash("web")
    site.watch(3)
    # The heartbeat is of before: an hour old, or of an hour to come.
    assert web.starts == 0
    assert any(("in the future" if jump < 0 else "3600 s old") in line for line in site.log), site.log
    # With the next one, made by a clock that was set as well, all is known again.
    web.heartbeat = site.scheduler.wall
    site.failover()
    assert site.journal.state("web").side is Side.STANDBY


def test_a_heartbeat_from_the_future_is_not_fresh() -> None:
    def ages(heartbeat: float) -> tuple[float | None, float | None]:
        found = ages_of(Freshness(heartbeat, "", heartbeat), began_at=1000.0, noticed_at=1060.0, now=1061.0)
        return found.files, found.heard

    assert ages(990.0) == (10.0, 70.0)
    # One that came while the failure was not noticed yet, and one by a clock that is a little ahead.
    assert ages(1050.0) == (0.0, 10.0)
    assert ages(1061.0 + AHEAD_AT_MOST) == (0.0, 0.0)
    assert ages(1061.5 + AHEAD_AT_MOST) == (None, None)
    assert ages_of(Freshness(None, "none has come"), began_at=1.0, noticed_at=1.0, now=1.0).detail == "none has come"


class SetBack(SystemClock):
    """An hour earlier at every look."""

    def __init__(self) -> None:
        self.shown = time.time()

    def now(self) -> float:
        self.shown -= HOUR
        return self.shown


@pytest.mark.timeout(60)
def test_what_waits_ends_in_time_whatever_the_clock_shows() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        (result,) = Probes(SetBack()).wait_for_all([("127.0.0.1", Port(tcp=nobody.getsockname()[1]))], 0.5, 0.1)
    assert not result.ok


@pytest.mark.parametrize("ahead", [-HOUR, HOUR])
def test_a_standby_that_waits_is_booted_again_whatever_the_clock_of_its_secondary_shows(
    ahead: float, memory_path: Path
) -> None:
    """That tells when it was started."""
    site = Site(memory_path, world={"mode": "hot", "lxd_ahead": ahead})
    site.watch(10)
    for _ in range(2):
        site.change(["web"], {"standby_running": False})
        site.watch(90)
        assert site.world.services["web"].container.status == RUNNING, site.log


@pytest.mark.parametrize("ahead", [-HOUR, 0.0, HOUR])
def test_what_an_operator_has_stopped_is_left_alone_whatever_the_clock_of_its_secondary_shows(
    ahead: float, memory_path: Path
) -> None:
    """Also by a watcher that was not there, and only reads of it."""
    site = Site(memory_path, world={"lxd_ahead": ahead})
    site.watch(3)
    site.crash("web")
    site.watch(20)
    site.change(["web"], {"standby_stopped_by": "root over unix"})
    site.watch(10)
    site.kill_watcher()
    site.watch(60)
    web = site.world.services["web"]
    assert (web.container.status, web.starts) == (STOPPED, 1), site.log
