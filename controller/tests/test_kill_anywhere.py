"""The controller is killed at every boundary of a failover: the next one finishes the job, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulation import KilledError, Simulation
from vcrecovery.core.states import Outcome, Side


def boundaries(folder: Path) -> int:
    simulation = Simulation(folder)
    simulation.watch()
    simulation.crash()
    simulation.watch()
    return simulation.boundaries


# Six steps, each with a boundary after its journal entry, before and after its act, and after its end.
EVERY_BOUNDARY = range(1, 25)


def test_every_boundary_is_meant(tmp_path: Path) -> None:
    assert boundaries(tmp_path) == len(EVERY_BOUNDARY)


@pytest.mark.parametrize("second_kill", [None, 1, 3, 7])
@pytest.mark.parametrize("first_kill", EVERY_BOUNDARY)
def test_killed_at(first_kill: int, second_kill: int | None, tmp_path: Path) -> None:
    simulation = Simulation(tmp_path)
    simulation.watch()
    simulation.crash()
    simulation.kill_at = first_kill
    simulation.watch()
    if second_kill is not None:
        simulation.kill_at = simulation.boundaries + second_kill
        simulation.watch()
    simulation.kill_at = None
    simulation.watch()
    state = simulation.journal.state("web")
    assert (state.side, state.epoch, state.open_episode) == (Side.STANDBY, 1, None)
    assert (simulation.env.starts, simulation.env.switches) == (1, 1)
    assert simulation.env.dns_address == "standby"
    episodes = simulation.journal.history("web")
    assert [episode.outcome for episode in episodes] == [Outcome.DONE]


# Seven steps with four boundaries each, and one in the middle of the restore.
EVERY_BOUNDARY_OF_A_RESTORE = range(1, 30)


def with_restore_points(folder: Path) -> Simulation:
    simulation = Simulation(folder)
    simulation.env.restore_points = ("vcr-20261121T110000Z", "vcr-20261121T120000Z")
    simulation.crash()
    return simulation


def test_every_boundary_of_a_restore_is_meant(tmp_path: Path) -> None:
    simulation = with_restore_points(tmp_path)
    simulation.failover(restore_point="latest")
    assert simulation.boundaries == len(EVERY_BOUNDARY_OF_A_RESTORE)


@pytest.mark.parametrize("second_kill", [None, 1, 5])
@pytest.mark.parametrize("first_kill", EVERY_BOUNDARY_OF_A_RESTORE)
@pytest.mark.parametrize("who_goes_on", ["the same words", "without the restore point", "the watcher"])
def test_killed_at_with_a_restore_point(
    who_goes_on: str, first_kill: int, second_kill: int | None, tmp_path: Path
) -> None:
    simulation = with_restore_points(tmp_path)
    simulation.kill_at = first_kill
    simulation.failover(restore_point="vcr-20261121T110000Z")
    fenced = simulation.env.steps.count("fence") > 0

    def go_on() -> None:
        if who_goes_on == "the same words" or not fenced:
            simulation.failover(restore_point="vcr-20261121T110000Z")
        elif who_goes_on == "without the restore point":
            simulation.failover()
        else:
            simulation.watch()

    if second_kill is not None:
        simulation.kill_at = simulation.boundaries + second_kill
        go_on()
    simulation.kill_at = None
    go_on()
    state = simulation.journal.state("web")
    assert (state.side, state.epoch, state.open_episode) == (Side.STANDBY, 1, None), simulation.log
    assert simulation.env.tree == "vcr-20261121T110000Z"
    assert (simulation.env.starts, simulation.env.switches) == (1, 1)


def test_a_kill_is_no_ordinary_exception() -> None:
    assert not issubclass(KilledError, Exception)
