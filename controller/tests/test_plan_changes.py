"""The plan is changed while a standby is where it had it: what runs there stays the one that counts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from simulated.looking import seen
from simulated.observed import Observed
from simulated.replanned import change_place, swap_places
from simulated.site import Site
from simulated.world import Service
from vcrecovery.core.service_state import Side
from vcrecovery.drivers.lxd.instances import RUNNING
from vcrecovery.report.findings import findings
from vcrecovery.report.protection import Protection, protection


def site_with_a_spare(folder: Path, services: Mapping[str, Mapping[str, Any]] | None = None) -> Site:
    site = Observed(folder, services or {"web": {"spare": "sec2", "spare_every": "5s"}})
    site.watch(3)
    return site


def places(site: Site) -> tuple[Service, Service]:
    web = site.world.services["web"]
    assert web.other is not None
    return web, web.other


def only_where_it_was(site: Site) -> None:
    home, spare = places(site)
    assert (home.container.status == RUNNING, spare.container.status == RUNNING) == (True, False), site.log
    assert home.serves, site.log
    assert home.dns_address == "standby", site.log


def test_the_secondary_and_the_spare_change_places_while_it_serves(memory_path: Path) -> None:
    site = site_with_a_spare(memory_path)
    site.crash("web")
    site.watch(40)
    only_where_it_was(site)
    written = places(site)[0].written
    swap_places(site)
    site.watch(60)
    only_where_it_was(site)
    assert len(site.journal.history("web")) == 1
    assert places(site)[0].written >= written
    # It goes to its new home when somebody wants it to.
    site.begin_failover(verb="move", to="sec2")
    site.watch(30)
    home, spare = places(site)
    assert (home.serves, spare.serves, home.dns_address) == (False, True, "spare"), site.log


@pytest.mark.parametrize("place", ["before start", "after start", "before probe"])
def test_they_change_places_in_the_middle_of_a_failover(place: str, memory_path: Path) -> None:
    """It may have been started, and nobody has journalled that it was."""
    site = site_with_a_spare(memory_path)
    site.crash("web")
    site.watch(40)
    site.serve_from_primary("web")
    site.acknowledge("web")
    site.watch(30)
    site.kill_at = place
    site.crash("web")
    site.watch(1, to_the_end=False, again=False)
    swap_places(site)
    site.watch(60)
    only_where_it_was(site)


def test_another_secondary_is_named_and_the_old_one_is_gone(memory_path: Path) -> None:
    """There is an old container there. Nothing is done to that service; the other one is as safe as ever."""
    services = {"web": {"spare": "sec2", "spare_every": "5s"}, "db": {}}
    site = site_with_a_spare(memory_path, services)
    site.crash("web")
    site.watch(40)
    spare = site.plan.services["web"].standby.spare
    assert spare is not None
    change_place(site, secondary="sec2", address=spare.address, spare=None)
    site.watch(30)
    site.failover(name="web")
    assert "the standby of web is on sec1, where the plan has no place for it" in site.log[-1]
    only_where_it_was(site)
    site.crash("db")
    site.watch(20)
    assert site.world.services["db"].serves, site.log


@pytest.mark.parametrize("while_it", ["serves", "waits"])
def test_the_spare_on_which_it_is_leaves_the_plan(while_it: str, memory_path: Path) -> None:
    site = site_with_a_spare(memory_path, {"web": {"spare": "sec2", "spare_every": "5s"}, "db": {}})
    if while_it == "serves":
        site.crash("web")
        site.watch(40)
    site.do(site.begin_failover(verb="move", name="web", to="sec2"))
    change_place(site, spare=None)
    site.crash("db")
    site.watch(20)
    home, spare = places(site)
    assert site.world.services["db"].serves, site.log
    assert not home.serves, site.log
    assert spare.serves == (while_it == "serves")
    view = seen(site)
    said = "\n".join(str(finding) for finding in findings(view))
    assert "is on sec2, where the plan has no place for it" in said
    assert "put `spare: {secondary: sec2, address: ...}` back" in said
    assert protection(view).level is Protection.UNPROTECTED
    if while_it == "waits":
        site.reset("web")
        site.watch(20)
        assert home.takes_files, site.log
        site.crash("web")
        site.watch(20)
        assert home.serves, site.log


def test_a_move_that_was_all_but_over_is_over(memory_path: Path) -> None:
    """Its VM has sent files there since: the service waits where the plan has no place, which is said."""
    site = site_with_a_spare(memory_path)
    site.kill_watcher()
    site.kill_at = "ended sync"
    site.do(site.begin_failover(verb="move", to="sec2"))
    change_place(site, spare=None)
    site.watch(40)
    state = site.journal.state("web")
    assert (state.placed_on, state.open_episode) == ("sec2", None), site.log
    assert "is on sec2, where the plan has no place for it" in str(findings(seen(site))[0])


def test_what_an_older_version_left_of_a_start_says_nothing(memory_path: Path) -> None:
    """That one went back to the primary without a word of where the standby was started."""
    site = site_with_a_spare(memory_path)
    with site.journal.transaction() as db:
        db.execute("UPDATE service SET started_on = 'sec7' WHERE name = 'web'")
    assert site.journal.state("web").placed_on is None
    site.crash("web")
    site.watch(20)
    only_where_it_was(site)


@pytest.mark.parametrize("then", ["a failure", "the watcher", "the operator"])
@pytest.mark.parametrize("place", ["after stop", "before last copy", "before receive", "before sync"])
def test_where_a_move_was_going_leaves_the_plan(place: str, then: str, memory_path: Path) -> None:
    """Up to its end everything is where it was, too."""
    site = site_with_a_spare(memory_path)
    site.kill_watcher()
    site.kill_at = place
    site.do(site.begin_failover(verb="move", to="sec2"))
    assert site.journal.state("web").open_episode is not None, site.log
    change_place(site, spare=None)
    home, _ = places(site)
    match then:
        case "a failure":
            site.crash("web")
            site.watch(20)
            assert (home.serves, home.dns_address) == (True, "standby"), site.log
            return
        case "the operator":
            site.do(site.begin_failover(verb="move", to="sec1"))
        case _:
            site.watch(40)
    state = site.journal.state("web")
    assert (state.side, state.open_episode) == (Side.PRIMARY, None), site.log
    assert home.takes_files, site.log
