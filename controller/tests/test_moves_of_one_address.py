"""A move to a spare that has the standby's own address: its clients reach it from its start there on."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulated.observed import Observed
from simulated.site import Site
from simulated.world import Service
from vcrecovery.core.episode import Outcome, Step
from vcrecovery.operations.steps import moving


@pytest.fixture(autouse=True)
def one_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulated networks of two secondaries differ; who asks whether the address stays is told so."""
    monkeypatch.setattr(moving, "keeps_address", lambda _subject: True)


def site_that_serves(folder: Path) -> tuple[Site, Service, Service]:
    site = Observed(folder, world={"spare": "sec2"})
    site.watch(3.0)
    site.crash("web")
    site.watch(10.0)
    home = site.world.services["web"]
    assert home.other is not None
    return site, home, home.other


def from_the_start_on(site: Site, **changes: float) -> None:
    site.then["before start"] = [lambda: site.change(["web"], changes)]


def move(site: Site) -> None:
    site.do(site.begin_failover(verb="move", to="sec2"))


def test_one_that_was_reached_there_does_not_go_back(memory_path: Path) -> None:
    """What clients have written there since would be lost."""
    site, home, spare = site_that_serves(memory_path)
    from_the_start_on(site, standby_flaps_for=1000.0)
    site.kill_watcher()
    move(site)
    (episode,) = [one for one in site.journal.open_episodes() if one.service == "web"]
    assert not episode.tried(Step.TAKE_BACK), site.log
    assert (home.serves, spare.container.status) == (False, "Running"), site.log
    assert any("it stays there, where its clients have reached it; look inside" in line for line in site.log), site.log
    home.standby_flaps_for = 0.0
    move(site)
    assert site.journal.history("web")[0].outcome is Outcome.DONE, site.log
    assert (home.serves, spare.serves) == (False, True)


def test_the_watcher_brings_it_to_its_end_there(memory_path: Path) -> None:
    site, home, spare = site_that_serves(memory_path)
    from_the_start_on(site, standby_flaps_for=90.0)
    move(site)
    site.watch(200.0)
    assert site.journal.history("web")[0].outcome is Outcome.DONE, site.log
    assert (home.serves, spare.serves) == (False, True)


def test_one_that_nobody_could_reach_there_goes_back(memory_path: Path) -> None:
    site, home, spare = site_that_serves(memory_path)
    from_the_start_on(site, standby_ports_open_after=1e9)
    site.then["before take back"] = [lambda: site.change(["web"], {"standby_ports_open_after": 1.0})]
    move(site)
    assert site.journal.history("web")[0].outcome is Outcome.TAKEN_BACK, site.log
    assert (home.serves, spare.serves) == (True, False)


def test_by_force_it_goes_back_all_the_same(memory_path: Path) -> None:
    site, home, spare = site_that_serves(memory_path)
    from_the_start_on(site, standby_flaps_for=1000.0)
    site.kill_watcher()
    move(site)
    home.standby_flaps_for = 0.0
    spare.standby_service_ended = True
    site.failover(to="sec1", force=True)
    assert (home.serves, spare.serves) == (True, False), site.log
    assert site.journal.state("web").open_episode is None
