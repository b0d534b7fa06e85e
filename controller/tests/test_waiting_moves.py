"""A standby that waits is moved, in the simulated world: killed anywhere, beside failures, to where nobody answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simulated.balance import begin_balance_move
from simulated.observed import Observed
from simulated.site import Site
from simulated.world import Service
from vcrecovery.core.episode import How, Outcome, Step
from vcrecovery.core.service_state import Side
from vcrecovery.drivers.lxd.instances import STOPPED

#: Six steps with four boundaries each, and one in the middle of each of three passes.
EVERY_BOUNDARY = range(1, 28)


def site_with_a_spare(folder: Path, **world: Any) -> Site:
    site = Observed(folder, world={"spare": "sec2", **world})
    site.watch(3.0)
    return site


def move(site: Site, to: str = "sec2") -> None:
    site.do(site.begin_failover(verb="move", to=to))


def places(site: Site) -> tuple[Service, Service]:
    web = site.world.services["web"]
    assert web.other is not None
    return web, web.other


def waits_on(site: Site, secondary: str) -> None:
    """Only there, by the journal and by both containers, and nothing is open."""
    state = site.journal.state("web")
    assert (state.side, state.open_episode) == (Side.PRIMARY, None), site.log
    assert (state.placed_on or "sec1") == secondary, site.log
    assert [place.secondary for place in places(site) if place.takes_files] == [secondary], site.log


def stands_by(site: Site, secondary: str) -> None:
    """And a failover starts it there."""
    site.watch(15.0)
    waits_on(site, secondary)
    site.crash("web")
    site.watch(10.0)
    serving = [place.secondary for place in places(site) if place.serves]
    assert serving == [secondary], site.log
    assert places(site)[0].dns_address == ("standby" if secondary == "sec1" else "spare"), site.log


def test_it_waits_there_and_a_failover_starts_it_there(memory_path: Path) -> None:
    site = site_with_a_spare(memory_path)
    move(site)
    assert [record.step for record in site.journal.history("web")[0].steps] == [
        Step.CONFIRM, Step.COPY, Step.STOP, Step.LAST_COPY, Step.RECEIVE, Step.SYNC,
    ]  # fmt: skip
    stands_by(site, "sec2")


@pytest.mark.parametrize("mode", ["cold", "warm", "frozen", "hot"])
def test_in_each_mode_it_goes_on_to_wait_as_its_mode_wants(mode: str, memory_path: Path) -> None:
    site = site_with_a_spare(memory_path, mode=mode)
    before = places(site)[0].container.status
    move(site)
    site.watch(30.0)
    home, spare = places(site)
    assert (home.container.status, spare.container.status) == (STOPPED, before), site.log
    stands_by(site, "sec2")


def test_there_and_back(memory_path: Path) -> None:
    site = site_with_a_spare(memory_path)
    move(site)
    waits_on(site, "sec2")
    move(site, "sec1")
    assert [episode.outcome for episode in site.journal.history("web")] == [Outcome.DONE] * 2
    stands_by(site, "sec1")


def test_every_boundary_is_meant(memory_path: Path) -> None:
    site = Site(memory_path, world={"spare": "sec2"})
    move(site)
    assert site.boundaries == len(EVERY_BOUNDARY)


@pytest.mark.parametrize("who", ["the same call", "the watcher", "a failure"])
@pytest.mark.parametrize("boundary", EVERY_BOUNDARY)
def test_killed_at(boundary: int, who: str, memory_path: Path) -> None:
    site = site_with_a_spare(memory_path)
    site.kill_watcher()
    site.kill_at = site.boundaries + boundary
    move(site)
    site.kill_at = None
    match who:
        case "the same call":
            move(site)
            waits_on(site, "sec2")
            stands_by(site, "sec2")
        case "the watcher":
            site.watch(40.0)
            state = site.journal.state("web")
            assert state.open_episode is None, site.log
            assert len([place for place in places(site) if place.takes_files]) == 1, site.log
        case _:
            site.crash("web")
            site.watch(15.0)
            placed = site.journal.state("web").placed_on or "sec1"
            assert [place.secondary for place in places(site) if place.serves] == [placed], site.log


@pytest.mark.parametrize("boundary", EVERY_BOUNDARY)
def test_one_that_the_watcher_began_itself(boundary: int, memory_path: Path) -> None:
    """Killed anywhere: the next watcher brings it to its end, if the stop has taken it from where it was."""
    site = Observed(memory_path, world={"spare": "sec2"}, plan={"balance": {"do": "move"}})
    site.watch(3.0)
    site.kill_watcher()
    site.kill_at = site.boundaries + boundary
    is_moved_by_the_watcher(site)
    site.kill_at = None
    site.watch(60.0)
    assert site.journal.state("web").open_episode is None, site.log
    assert len([place for place in places(site) if place.takes_files]) == 1, site.log


def is_moved_by_the_watcher(site: Site) -> None:
    site.do(begin_balance_move(site, "sec2"))


def test_one_that_cannot_be_taken_back_yet_is_not_given_up(memory_path: Path) -> None:
    site = Observed(memory_path, world={"spare": "sec2"}, plan={"balance": {"do": "move"}})
    site.watch(3.0)
    home, _ = places(site)
    site.then["before last copy"] = [lambda: setattr(home, "lxd_answers", False)]
    is_moved_by_the_watcher(site)
    site.watch(20.0)
    home.lxd_answers = True
    site.watch(60.0)
    assert site.journal.state("web").open_episode is None, site.log
    assert len([place for place in places(site) if place.takes_files]) == 1, site.log


def test_a_vm_that_fails_while_its_standby_goes_elsewhere_is_noticed(memory_path: Path) -> None:
    """That its files are all there takes hours at times."""
    when_down = {"on_service_down": {"do": "failover", "after": "10s"}}
    site = Observed(memory_path, world={"spare": "sec2"}, plan={"service": when_down})
    site.watch(3.0)
    home, spare = places(site)
    home.compares_for = 3600.0
    process = site.begin_failover(verb="move", to="sec2")
    site.then["before sync"] = [lambda: site.change(["web"], {"primary_ports_open": False, "unit_state": "failed"})]
    site.watch(120.0, to_the_end=False)
    assert process.is_over, site.log
    assert any("web: the primary does not answer" in line for line in site.log), site.log
    assert [place.secondary for place in (home, spare) if place.serves], "\n".join(site.log)


def test_that_nobody_takes_its_heartbeats_meanwhile_is_no_sign_of_a_failure(memory_path: Path) -> None:
    """Its port does not answer, since a firewall is in the way."""
    when_down = {"on_service_down": {"do": "failover", "after": "10s"}}
    site = Observed(memory_path, world={"spare": "sec2"}, plan={"service": when_down})
    site.watch(3.0)
    home, spare = places(site)
    site.world.copy_takes = 120.0
    site.begin_failover(verb="move", to="sec2")
    site.then["before last copy"] = [lambda: setattr(home, "primary_ports_open", False)]
    site.watch(600.0)
    assert any("web: the primary does not answer" in line for line in site.log), site.log
    assert not [place.secondary for place in (home, spare) if place.serves], site.log


@pytest.mark.parametrize("ends", ["there", "taken back"])
def test_nor_that_its_vm_has_to_find_out_where_they_go_then(ends: str, memory_path: Path) -> None:
    """It asks its secondaries only now and then."""
    when_down = {"on_service_down": {"do": "failover", "after": "10s"}, "sync": {"heartbeat": "10s"}}
    site = Observed(memory_path, world={"spare": "sec2"}, plan={"service": when_down})
    site.watch(3.0)
    home, spare = places(site)
    home.compares_for = 20.0
    site.world.copy_takes = 60.0
    spare.receiver_is_down = ends == "taken back"
    process = site.begin_failover(verb="move", to="sec2")
    site.then["before last copy"] = [lambda: setattr(home, "primary_ports_open", False)]
    site.watch(900.0)
    assert process.is_over, site.log
    outcome = site.journal.history("web")[0].outcome
    assert outcome is (Outcome.TAKEN_BACK if ends == "taken back" else Outcome.DONE), site.log
    assert not [place.secondary for place in (home, spare) if place.serves], site.log


@pytest.mark.parametrize("step", ["copy", "sync"])
def test_a_failover_comes_first(step: str, memory_path: Path) -> None:
    site = site_with_a_spare(memory_path)
    process = site.begin_failover(verb="move", to="sec2")
    place = "in the middle of copy" if step == "copy" else "before sync"
    site.then[place] = [lambda: site.crash("web")]
    site.watch(20.0)
    assert process.is_over
    serving = [place.secondary for place in places(site) if place.serves]
    assert serving == ["sec1" if step == "copy" else "sec2"], site.log
    first = site.journal.history("web")[-1]
    assert first.outcome is (Outcome.GIVEN_UP if step == "copy" else Outcome.DONE), site.log


@pytest.mark.parametrize("when", ["before", "in the middle of copy", "before last copy", "before receive"])
def test_where_the_other_machine_ends_it_waits_where_it_was(when: str, memory_path: Path) -> None:
    site = site_with_a_spare(memory_path)

    def ends() -> None:
        site.world.machine_ends("sec2")

    if when == "before":
        ends()
    else:
        site.then[when] = [ends]
    move(site)
    assert places(site)[0].takes_files, site.log
    site.world.machine_is_back("sec2")
    stands_by(site, "sec1")


def test_a_sync_that_does_not_follow_has_it_taken_back(memory_path: Path) -> None:
    site = site_with_a_spare(memory_path)
    places(site)[1].receiver_is_down = True
    move(site)
    assert site.journal.history("web")[0].outcome is Outcome.TAKEN_BACK, site.log
    stands_by(site, "sec1")


def test_one_that_is_lost_after_it_took_the_files_does_not_hold_the_standby(memory_path: Path) -> None:
    """Nobody can tell it that it does not any more; its VM knows all the same, and the watcher sees to it later on."""
    site = site_with_a_spare(memory_path)
    site.then["before sync"] = [lambda: site.world.machine_ends("sec2")]
    move(site)
    home, spare = places(site)
    assert home.takes_files
    assert spare.takes_files
    assert home.sends_to() is home or home.synced_to == "sec1"
    site.world.machine_is_back("sec2")
    site.watch(30.0)
    assert not spare.takes_files, site.log
    stands_by(site, "sec1")


def test_a_vm_that_does_not_know_the_other_one_keeps_its_standby(memory_path: Path) -> None:
    site = site_with_a_spare(memory_path, knows=("sec1",))
    move(site)
    assert any("its VM does not know sec2: run site.yml" in line for line in site.log), site.log
    stands_by(site, "sec1")


def test_what_is_refused_says_so_in_one_line(memory_path: Path) -> None:
    site = site_with_a_spare(memory_path, syncs=False, heartbeat_at=-500.0)
    move(site)
    assert any("its VM has sent no heartbeat for" in line for line in site.log), site.log
    waits_on(site, "sec1")


def test_one_that_waits_has_no_memory_to_take_along(memory_path: Path) -> None:
    site = site_with_a_spare(memory_path)
    site.do(site.begin_failover(verb="move", to="sec2", how=How.STATEFUL))
    assert any("its standby has no memory to take along" in line for line in site.log), site.log
    waits_on(site, "sec1")


def test_one_on_a_machine_that_is_lost_waits_at_home_again(memory_path: Path) -> None:
    site = site_with_a_spare(memory_path)
    move(site)
    site.reset("web")
    waits_on(site, "sec2")
    site.world.machine_ends("sec2")
    move(site, "sec1")
    assert any("its standby cannot be read" in line and "standby reset web" in line for line in site.log), site.log
    site.reset("web")
    home, spare = places(site)
    assert home.takes_files, site.log
    assert home.rank > spare.rank
    site.watch(10.0)
    assert home.sends_to() is home
    # It is back, and does not know.
    site.world.machine_is_back("sec2")
    assert spare.takes_files
    site.watch(30.0)
    stands_by(site, "sec1")
