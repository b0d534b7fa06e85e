"""The controller is killed at every boundary of a failover: the next one finishes the job, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulated.lxd import SimulatedLxd, losing_one_answer
from simulated.observed import Observed
from simulated.scheduler import KilledError
from simulated.site import Site
from vcrecovery.core.episode import Outcome
from vcrecovery.core.power import Power
from vcrecovery.core.service_state import Side
from vcrecovery.standby.container import KEEPING_KEY

POINTS = ["vcr-20261121T110000Z", "vcr-20261121T120000Z"]
# Six steps, each with a boundary after its journal entry, before and after its act, and after its end.
EVERY_BOUNDARY = range(1, 25)
# Seven steps with four boundaries each, and one in the middle of the restore.
EVERY_BOUNDARY_OF_A_RESTORE = range(1, 30)


def crashed(folder: Path) -> Site:
    site = Site(folder)
    site.watch(1)
    site.crash("web")
    return site


def test_every_boundary_is_meant(memory_path: Path) -> None:
    site = crashed(memory_path)
    site.watch(3)
    assert site.boundaries == len(EVERY_BOUNDARY)


def is_done(site: Site) -> None:
    """Once: one episode, one start, one change of the names."""
    state, web = site.journal.state("web"), site.world.services["web"]
    assert (state.side, state.epoch, state.open_episode) == (Side.STANDBY, 1, None), site.log
    assert (web.starts, web.switches, web.dns_address) == (1, 1, "standby"), site.log
    assert [episode.outcome for episode in site.journal.history("web")] == [Outcome.DONE]


@pytest.mark.parametrize("second_kill", [None, 1, 3, 7])
@pytest.mark.parametrize("first_kill", EVERY_BOUNDARY)
def test_killed_at(first_kill: int, second_kill: int | None, memory_path: Path) -> None:
    site = crashed(memory_path)
    site.kill_at = first_kill
    site.watch(3, again=False)
    if second_kill is not None:
        site.kill_at = site.boundaries + second_kill
        site.kill_watcher()
        site.watch(3, again=False)
    site.kill_at = None
    site.kill_watcher()
    site.watch(3)
    is_done(site)


@pytest.mark.parametrize("kill", EVERY_BOUNDARY)
def test_a_vm_that_started_with_its_host_does_so_after_its_failback(kill: int, memory_path: Path) -> None:
    """Whoever has kept it from that may not have lived to write it down."""
    site = Observed(memory_path, world={"autostart": True})
    site.watch(1)
    site.crash("web")
    site.kill_at = kill
    site.watch(3, again=False)
    site.kill_at = None
    site.kill_watcher()
    site.watch(5)
    web = site.world.services["web"]
    assert (web.serves, web.autostart) == (True, False), site.log
    site.failback()
    assert (site.journal.state("web").side, web.autostart) == (Side.PRIMARY, True), site.log


@pytest.mark.parametrize("mode", ["hot", "warm"])
def test_the_answer_to_a_promotion_is_lost(mode: str, memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs: what it serves with is told by its ports, and nothing is done twice."""
    site = Site(memory_path, world={"mode": mode})
    site.watch(1)
    monkeypatch.setattr(SimulatedLxd, "ask", losing_one_answer("ask"))
    site.crash("web")
    site.watch(5)
    state, web = site.journal.state("web"), site.world.services["web"]
    assert (state.side, state.epoch, state.open_episode) == (Side.STANDBY, 1, None), site.log
    assert (web.starts, web.dns_address) == (1, "standby"), site.log
    assert sum("its answer was lost" in line for line in site.log) == 1


def with_restore_points(folder: Path) -> Site:
    site = Site(folder, world={"restore_points": POINTS})
    site.crash("web")
    return site


def test_the_answer_to_a_restore_is_lost(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is done once more, whole."""
    site = with_restore_points(memory_path)
    monkeypatch.setattr(SimulatedLxd, "restore", losing_one_answer("restore"))
    site.failover(restore_point="latest")
    assert not site.world.services["web"].serves
    site.watch(5)
    web = site.world.services["web"]
    assert (web.tree, web.restores, web.starts) == (POINTS[-1], 2, 1), site.log
    assert web.serves


def test_every_boundary_of_a_restore_is_meant(memory_path: Path) -> None:
    site = with_restore_points(memory_path)
    site.failover(restore_point="latest")
    assert site.boundaries == len(EVERY_BOUNDARY_OF_A_RESTORE)


@pytest.mark.parametrize("second_kill", [None, 1, 5])
@pytest.mark.parametrize("first_kill", EVERY_BOUNDARY_OF_A_RESTORE)
@pytest.mark.parametrize("who_goes_on", ["the same words", "without the restore point", "the watcher"])
def test_killed_at_with_a_restore_point(
    who_goes_on: str, first_kill: int, second_kill: int | None, memory_path: Path
) -> None:
    site = with_restore_points(memory_path)
    site.kill_at = first_kill
    site.failover(restore_point=POINTS[0])
    state = site.journal.state("web")
    fenced = state.open_episode is None or state.open_episode.ever_fenced

    def go_on() -> None:
        if who_goes_on == "the same words" or not fenced:
            site.failover(restore_point=POINTS[0])
        elif who_goes_on == "without the restore point":
            site.failover()
        else:
            site.kill_watcher()
            site.watch(3, again=False)

    if second_kill is not None:
        site.kill_at = site.boundaries + second_kill
        go_on()
    site.kill_at = None
    go_on()
    is_done(site)
    assert site.world.services["web"].tree == POINTS[0]


# Eight steps with four boundaries each.
EVERY_BOUNDARY_OF_A_SWITCHOVER = range(1, 33)


def test_every_boundary_of_a_switchover_is_meant(memory_path: Path) -> None:
    site = Site(memory_path)
    site.watch(1)
    site.switchover()
    assert site.boundaries == len(EVERY_BOUNDARY_OF_A_SWITCHOVER)


def goes_on(site: Site, who: str) -> None:
    """Whoever is next."""
    if who == "the same words":
        site.switchover()
    else:
        another_goes_on(site, who)


def another_goes_on(site: Site, who: str) -> None:
    if who == "a failover":
        site.failover()
    else:
        site.kill_watcher()
        site.watch(3, again=False)


@pytest.mark.parametrize("second_kill", [None, 1, 5])
@pytest.mark.parametrize("first_kill", EVERY_BOUNDARY_OF_A_SWITCHOVER)
@pytest.mark.parametrize("who_goes_on", ["the same words", "a failover", "the watcher"])
def test_killed_at_in_a_switchover(
    who_goes_on: str, first_kill: int, second_kill: int | None, memory_path: Path
) -> None:
    """Nothing is lost: the standby starts with the VM's last files only (`Observed` looks)."""
    site = Observed(memory_path)
    site.watch(1)
    site.kill_at = first_kill
    site.switchover()
    episode = site.journal.state("web").open_episode
    acted = episode is None or episode.has_acted
    if second_kill is not None:
        site.kill_at = site.boundaries + second_kill
        goes_on(site, who_goes_on if acted else "the same words")
    site.kill_at = None
    goes_on(site, who_goes_on if acted else "the same words")
    site.closed()
    is_done(site)
    assert site.world.services["web"].reason == "shutdown"
    assert site.scheduler.broken is None


@pytest.mark.parametrize("second_kill", [None, 1, 2])
@pytest.mark.parametrize("first_kill", range(1, 17))
@pytest.mark.parametrize("who_goes_on", ["the same words", "a failover", "the watcher"])
def test_killed_at_on_the_way_back(
    who_goes_on: str, first_kill: int, second_kill: int | None, memory_path: Path
) -> None:
    """Its last files do not arrive: the VM serves again, however often somebody was killed."""
    site = Observed(memory_path, world={"autostart": True})
    site.watch(1)
    site.then["journalled shutdown"] = [lambda: site.change(["web"], {"syncs": False})]
    site.kill_at = first_kill
    site.switchover()
    episode = site.journal.state("web").open_episode
    if second_kill is not None and (episode is None or episode.has_acted):
        site.kill_at = site.boundaries + second_kill
        goes_on(site, who_goes_on)
    site.kill_at = None
    if (episode := site.journal.state("web").open_episode) is not None:
        goes_on(site, who_goes_on if episode.has_acted else "the same words")
    state, web = site.journal.state("web"), site.world.services["web"]
    assert (state.side, state.open_episode) == (Side.PRIMARY, None), site.log
    assert (web.power, web.autostart, web.starts, web.switches) == (Power.RUNNING, True, 0, 0), site.log
    assert site.journal.history("web")[-1].outcome is Outcome.TAKEN_BACK
    assert site.scheduler.broken is None


# Ten steps with four boundaries each, and two in the middle of the one that keeps what the standby was.
EVERY_BOUNDARY_OF_A_FAILBACK = range(1, 43)


def served_by_its_standby(folder: Path, **world: object) -> Observed:
    site = Observed(folder, world={"autostart": True, **world})
    site.watch(1)
    site.crash("web")
    site.watch(3)
    site.boundaries = 0
    return site


def test_every_boundary_of_a_failback_is_meant(memory_path: Path) -> None:
    site = served_by_its_standby(memory_path)
    site.failback()
    assert site.boundaries == len(EVERY_BOUNDARY_OF_A_FAILBACK)


def goes_on_back(site: Site, who: str) -> None:
    """Before the standby was stopped a failback is the operator's: nobody else goes on with it."""
    episode = site.journal.state("web").open_episode
    if who == "the same words" or episode is None or not episode.has_acted:
        site.failback()
    else:
        another_goes_on(site, who)


@pytest.mark.parametrize("second_kill", [None, 1, 5])
@pytest.mark.parametrize("first_kill", EVERY_BOUNDARY_OF_A_FAILBACK)
@pytest.mark.parametrize("who_goes_on", ["the same words", "a failover", "the watcher"])
def test_killed_at_in_a_failback(who_goes_on: str, first_kill: int, second_kill: int | None, memory_path: Path) -> None:
    """Nothing is lost: the VM serves with all that its standby has written only (the simulated VM looks)."""
    site = served_by_its_standby(memory_path)
    site.kill_at = first_kill
    site.failback()
    if second_kill is not None:
        site.kill_at = site.boundaries + second_kill
        goes_on_back(site, who_goes_on)
    site.kill_at = None
    goes_on_back(site, who_goes_on)
    state, web = site.journal.state("web"), site.world.services["web"]
    assert (state.side, state.epoch, state.open_episode) == (Side.PRIMARY, 2, None), site.log
    assert (web.power, web.open_ports, web.autostart, web.serves) == (Power.RUNNING, True, True, False), site.log
    assert (web.starts, web.switches, web.dns_address, web.order) == (1, 2, "primary", None), site.log
    assert [episode.outcome for episode in site.journal.history("web")] == [Outcome.DONE, Outcome.DONE]
    keeps(site)


# From the stop of the standby up to the look at the VM's ports.
@pytest.mark.parametrize("first_kill", range(13, 29))
@pytest.mark.parametrize("who_goes_on", ["the same words", "a failover", "the watcher"])
@pytest.mark.parametrize("silent", ["hypervisor_answers", "lxd_answers"])
def test_who_goes_on_with_a_failback_meets_a_host_that_does_not_answer(
    silent: str, who_goes_on: str, first_kill: int, memory_path: Path
) -> None:
    """Once the VM may serve, its standby does not start beside it (the simulated world looks)."""
    site = served_by_its_standby(memory_path)
    web = site.world.services["web"]
    site.kill_at = first_kill
    site.failback()
    site.kill_at = None
    # The VM hears of what was done.
    site.run(5.0)
    site.change(["web"], {silent: False})
    goes_on_back(site, who_goes_on)
    site.change(["web"], {silent: True})
    goes_on_back(site, "the same words")
    assert site.scheduler.broken is None
    state = site.journal.state("web")
    assert state.open_episode is None, site.log
    vm_serves = web.power is Power.RUNNING and not web.superseded
    assert (state.side is Side.PRIMARY, web.serves) == (vm_serves, not vm_serves), site.log


@pytest.mark.parametrize("befalls", ["its hypervisor does not answer", "it has crashed"])
@pytest.mark.parametrize("lost", ["the answer", "the controller"])
def test_who_has_handed_over_unheard_does_not_go_back(
    lost: str, befalls: str, memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The VM was told that it serves, and has written since."""
    site = served_by_its_standby(memory_path)
    web = site.world.services["web"]
    if lost == "the answer":
        site.then["journalled hand over"] = [
            lambda: monkeypatch.setattr(SimulatedLxd, "configure", losing_one_answer("configure"))
        ]
    else:
        site.kill_at = "after hand over"
    site.failback()
    site.kill_at = None
    site.run(5.0)
    assert (web.superseded, web.power) == (False, Power.RUNNING), site.log
    if befalls == "it has crashed":
        site.crash("web")
    else:
        site.change(["web"], {"hypervisor_answers": False})
    site.failback()
    site.change(["web"], {"hypervisor_answers": True})
    site.failback()
    assert (site.journal.state("web").side, web.serves, web.starts) == (Side.PRIMARY, False, 1), site.log
    assert web.power is Power.RUNNING
    assert site.scheduler.broken is None


@pytest.mark.parametrize("second_kill", [None, 1, 2])
@pytest.mark.parametrize("first_kill", range(13, 25))
@pytest.mark.parametrize("who_goes_on", ["the same words", "a failover", "the watcher"])
def test_killed_at_on_the_way_back_of_a_failback(
    who_goes_on: str, first_kill: int, second_kill: int | None, memory_path: Path
) -> None:
    """The VM cannot fetch the rest: the standby serves again, however often somebody was killed."""
    site = served_by_its_standby(memory_path)
    site.then["ended stop"] = [lambda: site.change(["web"], {"fetches_within": None})]
    site.kill_at = first_kill
    site.failback()
    if second_kill is not None and site.journal.state("web").open_episode is not None:
        site.kill_at = site.boundaries + second_kill
        goes_on_back(site, who_goes_on)
    site.kill_at = None
    if site.journal.state("web").open_episode is not None:
        goes_on_back(site, who_goes_on)
    state, web = site.journal.state("web"), site.world.services["web"]
    assert (state.side, state.open_episode) == (Side.STANDBY, None), site.log
    assert (web.serves, web.starts, web.switches, web.order) == (True, 2, 1, None), site.log
    assert site.journal.history("web")[0].outcome is Outcome.TAKEN_BACK
    assert site.scheduler.broken is None


def keeps(site: Site) -> str:
    """Once, what the standby was (the simulated LXD looks); and it takes files again. Its name."""
    web = site.world.services["web"]
    assert KEEPING_KEY not in web.container.config, site.log
    (name,) = web.restore_points
    assert name.endswith("-before-failback")
    assert site.scheduler.broken is None
    return name


def failed_back(folder: Path) -> tuple[Site, str]:
    site = served_by_its_standby(folder)
    site.failback()
    site.boundaries = 0
    return site, keeps(site)


# Seven steps with four boundaries each, and one in the middle of the restore.
EVERY_BOUNDARY_OF_A_ROLLBACK = range(1, 30)


def test_every_boundary_of_a_rollback_is_meant(memory_path: Path) -> None:
    site, _ = failed_back(memory_path)
    site.rollback()
    assert site.boundaries == len(EVERY_BOUNDARY_OF_A_ROLLBACK)


@pytest.mark.parametrize("second_kill", [None, 1, 5])
@pytest.mark.parametrize("first_kill", EVERY_BOUNDARY_OF_A_ROLLBACK)
@pytest.mark.parametrize("who_goes_on", ["the same words", "the watcher"])
def test_killed_at_in_a_rollback(who_goes_on: str, first_kill: int, second_kill: int | None, memory_path: Path) -> None:
    """Its standby serves what it was, once; meanwhile nobody commits what that rests on."""
    site, name = failed_back(memory_path)
    site.kill_at = first_kill
    site.rollback()

    def go_on() -> None:
        episode = site.journal.state("web").open_episode
        if who_goes_on == "the watcher" and (episode is None or episode.has_acted):
            site.kill_watcher()
            site.watch(3, again=False)
        else:
            site.rollback()

    episode = site.journal.state("web").open_episode
    if episode is not None and episode.has_acted:
        site.commit()
        assert name in site.world.services["web"].restore_points, site.log
    if second_kill is not None:
        site.kill_at = site.boundaries + second_kill
        go_on()
    site.kill_at = None
    go_on()
    state, web = site.journal.state("web"), site.world.services["web"]
    assert (state.side, state.epoch, state.open_episode) == (Side.STANDBY, 3, None), site.log
    assert (web.serves, web.starts, web.dns_address, web.tree) == (True, 2, "standby", name), site.log
    assert KEEPING_KEY not in web.container.config
    assert site.scheduler.broken is None


@pytest.mark.parametrize("who_goes_on", ["the same words", "the watcher"])
@pytest.mark.parametrize("place", ["in the middle of renaming"])
def test_killed_at_in_a_commit(who_goes_on: str, place: str, memory_path: Path) -> None:
    """What is half removed is no restore point, and goes."""
    site, name = failed_back(memory_path)
    site.kill_at = place
    site.commit()
    web = site.world.services["web"]
    assert web.restore_points == (f"vcr-new-{name}",)
    site.rollback()
    assert "is possible: its failback is committed" in site.log[-1]
    if who_goes_on == "the watcher":
        site.watch(3700)
    else:
        site.commit()
        assert site.log[-1].endswith("web: nothing to commit")
    assert not web.restore_points
    assert web.power is Power.RUNNING
    assert site.scheduler.broken is None


@pytest.mark.parametrize("vm_runs", [False, True])
@pytest.mark.parametrize("place", ["journalled confirm", "ended confirm"])
def test_a_reset_gives_up_a_start_that_has_not_acted(place: str, vm_runs: bool, memory_path: Path) -> None:
    """The service was brought back by hand: nobody takes it from its VM again."""
    site = crashed(memory_path)
    site.watch(5)
    web = site.world.services["web"]
    site.kill_at = place
    web.container_becomes("Stopped")
    site.watch(30, again=False)
    site.kill_at = None
    site.kill_watcher()
    assert site.journal.state("web").open_episode is not None
    site.suspend("web", None)
    site.point_back("web")
    web.has_everything = True
    if vm_runs:
        site.start_primary("web")
    site.reset("web")
    site.resume("web")
    site.watch(20)
    state = site.journal.state("web")
    assert (state.side, state.open_episode) == (Side.PRIMARY, None), site.log
    assert (web.serves, web.dns_address) == (False, "primary"), site.log
    assert site.journal.history("web", 1)[0].outcome is Outcome.GIVEN_UP


def test_a_kill_is_no_ordinary_exception() -> None:
    assert not issubclass(KilledError, Exception)
