"""A clock that is set an hour forward or back, anywhere in a failover: the promises hold, and nothing hangs."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from simulation import Simulation
from vcrecovery.core.states import Side
from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.probe import Probes
from vcrecovery.operations.outside import ages_of
from vcrecovery.plan.probes import Port
from vcrecovery.transfer.freshness import AHEAD_AT_MOST, Freshness

HOUR = 3600.0
#: As in test_kill_anywhere: six steps with four boundaries each.
EVERY_BOUNDARY = range(1, 25)


class Jumping(Simulation):
    """Its clock is set by `jump` seconds at boundary number `jump_at`."""

    jump_at = 0
    jump = 0.0

    def boundary(self, name: str) -> None:
        super().boundary(name)
        if self.boundaries == self.jump_at:
            self.clock.set_by += self.jump


def crashed(folder: Path) -> Jumping:
    simulation = Jumping(folder)
    simulation.watch()
    simulation.crash()
    return simulation


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
@pytest.mark.parametrize("at", EVERY_BOUNDARY)
def test_in_the_middle_of_a_failover(at: int, jump: float, tmp_path: Path) -> None:
    simulation = crashed(tmp_path)
    simulation.jump_at, simulation.jump = at, jump
    simulation.watch()
    if simulation.journal.state("web").side is Side.PRIMARY:
        # Set back before the signals were confirmed: how old the standby is cannot be known.
        assert jump < 0
        assert simulation.env.starts == 0
        assert "in the future" in simulation.log[-1], simulation.log
        simulation.failover(force=True)
    state = simulation.journal.state("web")
    assert (state.side, state.open_episode) == (Side.STANDBY, None), simulation.log
    assert (simulation.env.starts, simulation.env.switches) == (1, 1)
    assert simulation.journal.newest_done("web") is not None


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
@pytest.mark.parametrize("at", EVERY_BOUNDARY)
def test_while_no_controller_runs(at: int, jump: float, tmp_path: Path) -> None:
    simulation = crashed(tmp_path)
    simulation.kill_at = at
    simulation.watch()
    simulation.clock.set_by += jump
    fences = simulation.env.steps.count("fence")
    started = "start" in simulation.env.steps
    simulation.watch()
    if simulation.journal.state("web").side is Side.PRIMARY:
        simulation.failover(force=True)
    state = simulation.journal.state("web")
    assert (state.side, state.open_episode) == (Side.STANDBY, None), simulation.log
    assert (simulation.env.starts, simulation.env.switches) == (1, 1)
    if not started:
        # A fence of an hour ago, or of an hour to come, is none.
        assert simulation.env.steps.count("fence") > fences


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_before_the_crash(jump: float, tmp_path: Path) -> None:
    simulation = Simulation(tmp_path)
    simulation.watch()
    simulation.clock.set_by += jump
    simulation.crash()
    simulation.watch()
    # The heartbeat is of before: an hour old, or of an hour to come.
    assert simulation.env.starts == 0
    assert ("in the future" if jump < 0 else "3600 s old") in simulation.log[-1]
    # With the next one, made by a clock that was set as well, all is known again.
    simulation.env.heartbeat_at = simulation.clock.now()
    simulation.failover()
    assert simulation.journal.state("web").side is Side.STANDBY


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
