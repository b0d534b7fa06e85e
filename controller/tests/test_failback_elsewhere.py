"""A failback, and a rollback, whose controller is on another machine than LXD, under kills and lost answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulated.lxd import SimulatedLxd
from simulated.observed import Observed
from vcrecovery.core.episode import Outcome
from vcrecovery.core.power import OFF, Power
from vcrecovery.core.service_state import Side
from vcrecovery.operations.preflight import warnings_outside
from vcrecovery.standby.container import KEEPING_KEY
from vcrecovery.transfer.jail import ASKED_EVERY
from vcrecovery.transfer.sessions import ENDED_BY_THEMSELVES


@pytest.fixture
def site(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> Observed:
    """Its standby serves, since its VM has crashed."""
    monkeypatch.setattr(SimulatedLxd, "is_here", property(lambda _self: False))
    site = Observed(memory_path, world={"autostart": True})
    site.watch(1)
    site.crash("web")
    site.watch(3)
    assert site.world.services["web"].serves
    site.boundaries = 0
    return site


def said(site: Observed, text: str) -> bool:
    return any(text in line for line in site.log)


def test_the_vm_serves_with_all_that_its_standby_wrote(site: Observed) -> None:
    site.failback()
    web = site.world.services["web"]
    assert (web.open_ports, web.serves, web.order, web.has_everything) == (True, False, None, True), site.log
    assert site.journal.history("web")[0].outcome is Outcome.DONE
    assert KEEPING_KEY not in web.container.config
    site.failback()
    assert said(site, "web: nothing to do: its primary serves")


@pytest.mark.parametrize("kill", range(1, 43))
def test_killed_at(kill: int, site: Observed) -> None:
    """The same words go on; at no time do both serve (the simulated world looks)."""
    site.kill_at = kill
    site.failback()
    site.kill_at = None
    site.failback()
    state, web = site.journal.state("web"), site.world.services["web"]
    assert (state.side, state.open_episode) == (Side.PRIMARY, None), site.log
    assert (web.power, web.open_ports, web.serves, web.order) == (Power.RUNNING, True, False, None), site.log
    assert site.scheduler.broken is None


@pytest.mark.parametrize(("seconds", "outcome"), [(5.0, Outcome.DONE), (40.0, Outcome.TAKEN_BACK)])
def test_lxd_may_be_restarted_while_the_vm_fetches_the_rest(seconds: float, outcome: Outcome, site: Observed) -> None:
    """Where it stays away the standby serves again, once it is back."""
    web, scheduler = site.world.services["web"], site.scheduler

    def answers(now: bool) -> None:
        web.lxd_answers = now

    def last_pass_begins() -> None:
        scheduler.at(scheduler.time + 1.0, lambda: answers(False))
        scheduler.at(scheduler.time + 1.0 + seconds, lambda: answers(True))

    web.fetches_within = 3.0
    site.then["ended stop"] = [last_pass_begins]
    site.failback()
    if site.journal.state("web").open_episode is not None:
        site.run(seconds)
        site.failback()
    assert site.journal.history("web")[0].outcome is outcome, site.log
    assert (web.serves, web.open_ports) == (outcome is Outcome.TAKEN_BACK, outcome is Outcome.DONE)
    assert scheduler.broken is None


def test_a_rollback_waits_for_what_it_cannot_end(site: Observed) -> None:
    site.failback()
    site.rollback(word=False)
    assert said(site, "what was written since is not counted: its secondary is another machine")
    begun = site.scheduler.time
    site.rollback()
    web = site.world.services["web"]
    assert web.serves, site.log
    assert web.power in OFF
    assert web.tree.endswith("-before-failback")
    assert KEEPING_KEY not in web.container.config
    assert site.scheduler.time - begun > ENDED_BY_THEMSELVES


@pytest.mark.parametrize("kill", range(1, 30))
def test_killed_at_in_a_rollback(kill: int, site: Observed) -> None:
    site.failback()
    (name,) = site.world.services["web"].restore_points
    site.kill_at = site.boundaries + kill
    site.rollback()
    site.kill_at = None
    site.rollback()
    state, web = site.journal.state("web"), site.world.services["web"]
    assert (state.side, state.open_episode) == (Side.STANDBY, None), site.log
    assert (web.serves, web.tree) == (True, name), site.log
    assert KEEPING_KEY not in web.container.config
    assert site.scheduler.broken is None


def test_only_what_a_failback_has_kept_is_put_back_from_elsewhere(site: Observed) -> None:
    site.failback()
    site.world.services["web"].restore_points = ("vcr-20261121T000000Z",)
    site.failover(restore_point="latest", force=True)
    assert said(site, "secondary sec1 is another machine: only there can its standbys be put back"), site.log
    assert site.world.services["web"].open_ports


def test_a_standby_that_is_not_there_is_named(site: Observed) -> None:
    site.world.services["web"].is_there = False
    site.failback()
    assert said(site, "web does not go back to its VM: secondary sec1 has no container web"), site.log


def test_a_receiver_of_an_older_version_is_named(site: Observed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimulatedLxd, "receiver_can", lambda _self, _what: False)
    site.failback()
    assert said(
        site,
        "web does not go back to its VM: the receiver on secondary sec1 is of an older version, and VMs cannot fetch "
        "from it at the word of a controller on another machine: run `playbooks/standby.yml`",
    ), site.log
    assert site.world.services["web"].serves
    assert site.world.services["web"].power in OFF
    assert len(warned(site)) == 1


def warned(site: Observed) -> list[str]:
    """What `plan check --online` warns of."""
    found: list[str] = []
    site.do(site._begin("operator", lambda env: found.extend(warnings_outside(env))))
    return [
        line for line in found if line.startswith("secondaries.sec1: the receiver on secondary sec1 is of an older")
    ]


def test_nobody_is_warned_of_a_receiver_that_knows_orders(site: Observed) -> None:
    assert warned(site) == []


def test_sessions_end_by_themselves_in_time() -> None:
    """Each asks every so often; LXD has 10 s to answer (`receiver._UnixConnection`)."""
    assert ENDED_BY_THEMSELVES >= ASKED_EVERY + 10 + 5
