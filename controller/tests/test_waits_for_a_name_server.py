"""Everything is done, and one name server is away for hours: whoever serves meanwhile is looked after as ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulated.observed import Observed
from simulated.site import Site
from vcrecovery.core.episode import Outcome, Step
from vcrecovery.core.failback import kept_by
from vcrecovery.core.power import Power
from vcrecovery.core.service_state import Side
from vcrecovery.core.standby_end import WAITS
from vcrecovery.standby.container import KEEPING_KEY

AWAY = {"ns2": "does not answer: [Errno 113] No route to host"}


@pytest.fixture
def served(memory_path: Path) -> Site:
    """Its standby serves, and ns2, which has failed with its VM, does not know of it."""
    site = Observed(memory_path, world={"ns2": ""})
    site.watch(1)
    site.change(["web"], AWAY)
    site.crash("web")
    site.watch(60, to_the_end=False)
    return site


def test_a_standby_that_ends_is_started_again(served: Site) -> None:
    """Behind a fence, at a new epoch; and once the server is back, all is done."""
    web = served.world.services["web"]
    starts = web.starts
    web.container_becomes("Stopped")
    served.watch(120, to_the_end=False)
    assert web.serves, served.log
    newest, first = served.journal.history("web")
    assert (first.outcome, newest.epoch, web.starts) == (Outcome.GIVEN_UP, 2, starts + 1)
    assert newest.done(Step.FENCE) is not None
    served.change(["web"], {"ns2": ""})
    served.watch(60)
    assert served.journal.history("web", 1)[0].outcome is Outcome.DONE, served.log
    assert web.dns_address == "standby"


def test_one_that_ends_again_and_again_is_not_started_for_ever(served: Site) -> None:
    web = served.world.services["web"]
    for _ in range(20):
        if web.serves:
            web.container_becomes("Stopped")
        served.watch(120, to_the_end=False)
    assert web.starts == 1 + len(WAITS), served.log
    assert any("the standby, which serves, is not started again" in line for line in served.log), served.log


def test_one_that_somebody_stops_is_left_alone(served: Site) -> None:
    served.change(["web"], {"standby_stopped_by": "root"})
    served.watch(120, to_the_end=False)
    assert not served.world.services["web"].serves
    assert any("was stopped by root: left alone" in line for line in served.log), served.log


@pytest.mark.parametrize("force", [False, True])
def test_an_operator_brings_it_up(force: bool, served: Site) -> None:
    """Where no watcher runs; the first call says what has happened, and each that the server is away."""
    web = served.world.services["web"]
    served.kill_watcher()
    served.run(20)
    web.container_becomes("Stopped")
    served.failover(force=force)
    assert "container web has ended" in served.log[-1]
    assert "DNS was not changed" not in served.log[-1]
    served.failover(force=force)
    assert web.serves, served.log
    assert "ExternalError: DNS server ns2" in served.log[-1]


def test_a_standby_that_serves_is_only_looked_at(served: Site) -> None:
    web = served.world.services["web"]
    before = (web.starts, web.switches)
    served.watch(300, to_the_end=False)
    state = served.journal.state("web")
    assert state.open_episode is not None
    assert (web.starts, web.switches, state.epoch, web.serves) == (*before, 1, True), served.log
    served.change(["web"], {"ns2": ""})
    served.watch(60)
    assert [episode.outcome for episode in served.journal.history("web")] == [Outcome.DONE], served.log


def test_one_that_was_moved_is_started_again_where_it_went(memory_path: Path) -> None:
    site = Observed(memory_path, world={"ns2": "", "spare": "sec2"})
    site.watch(1)
    site.crash("web")
    site.watch(15)
    site.then["ended last copy"] = [lambda: site.change(["web"], AWAY)]
    site.do(site.begin_failover(verb="move", to="sec2"))
    site.watch(60, to_the_end=False)
    (there,) = site.world.in_lxd("sec2")
    assert there.serves, site.log
    there.container_becomes("Stopped")
    site.watch(120, to_the_end=False)
    assert there.serves, site.log
    assert site.journal.state("web").placed_on == "sec2"
    assert [one.outcome for one in site.journal.history("web")] == [None, Outcome.GIVEN_UP, Outcome.DONE], site.log


@pytest.fixture
def handed_over(memory_path: Path) -> Site:
    """Its VM serves again, after a failback that ns2 does not know of."""
    site = Observed(memory_path, world={"autostart": True, "ns2": ""})
    site.watch(1)
    site.crash("web")
    site.watch(3)
    site.then["ended hand over"] = [lambda: site.change(["web"], AWAY)]
    site.failback()
    site.watch(60, to_the_end=False)
    assert site.world.services["web"].power is Power.RUNNING
    return site


def test_a_vm_that_crashes_after_its_failback_is_failed_over(handed_over: Site) -> None:
    site, web = handed_over, handed_over.world.services["web"]
    site.acknowledge("web")
    site.acknowledged.add("web")  # type: ignore[attr-defined]
    site.crash("web")
    site.watch(120, to_the_end=False)
    assert (web.serves, web.power, site.journal.state("web").side) == (True, Power.SHUTOFF, Side.STANDBY), site.log
    failback = next(episode for episode in site.journal.history("web") if episode.request.back)
    assert failback.outcome is Outcome.GIVEN_UP


def test_its_standby_takes_files_again_meanwhile(handed_over: Site) -> None:
    """Else it would be as old as the hand-over, and no failover would take it."""
    site, web = handed_over, handed_over.world.services["web"]
    assert KEEPING_KEY not in web.container.config, site.log
    site.change(["web"], {"ns2": ""})
    site.watch(60)
    failback = site.journal.history("web", 1)[0]
    assert (failback.outcome, len([r for r in failback.steps if r.step is Step.KEEP])) == (Outcome.DONE, 1), site.log
    assert kept_by(failback) is not None


def test_a_vm_that_is_shut_down_after_its_failback_is_left_alone(handed_over: Site) -> None:
    """On request: nobody starts it again, nor its standby."""
    site, web = handed_over, handed_over.world.services["web"]
    site.acknowledge("web")
    site.acknowledged.add("web")  # type: ignore[attr-defined]
    site.stop_primary("web", "shutdown")
    site.watch(120, to_the_end=False)
    assert (web.serves, web.power) == (False, Power.SHUTOFF), site.log


def test_an_operator_fails_it_over(handed_over: Site) -> None:
    site, web = handed_over, handed_over.world.services["web"]
    site.kill_watcher()
    site.run(20)
    site.crash("web")
    site.failover()
    site.failover()
    assert (web.serves, web.power) == (True, Power.SHUTOFF), site.log
