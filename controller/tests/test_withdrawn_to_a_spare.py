"""A failover to a spare is called off, since the standby serves where it was: it is kept up and copied as before."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulated.observed import Observed
from simulated.site import Site
from simulated.world import Service
from vcrecovery.core.episode import Outcome
from vcrecovery.core.service_state import Side
from vcrecovery.standby.container import ACTIVE, EPOCH_KEY, ROLE_KEY, SPARE

CUT_OFF = {"lxd_answers": False, "standby_service_ended": True}
BACK = {"lxd_answers": True, "standby_service_ended": False}


@pytest.fixture
def site(memory_path: Path) -> Site:
    """It serves on sec1; epoch 2 was to have it go on on sec2, and its fence was tried in vain."""
    world = {"spare": "sec2", "secondary_fence": True, "fence_command_works": False}
    site = Observed(memory_path, world=world, plan={"detection": {"host_silent_for": "5s"}})
    site.watch(1)
    site.crash("web")
    site.watch(15)
    site.change(["web"], CUT_OFF)
    site.watch(16, to_the_end=False)
    site.change(["web"], BACK)
    return site


def is_withdrawn(site: Site) -> bool:
    state = site.journal.state("web")
    last = site.journal.history("web", 1)[0]
    return (state.side, state.epoch, last.epoch, last.outcome) == (Side.STANDBY, 2, 2, Outcome.WITHDRAWN)


def withdrawn(site: Site, role: str) -> Service:
    """After it. With the role of a spare the container was put aside by the fence, which could not stop it."""
    web = site.world.services["web"]
    site.watch(8)
    assert is_withdrawn(site), site.log
    web.container.config |= {ROLE_KEY: role, EPOCH_KEY: "1" if role == ACTIVE else "2"}
    return web


@pytest.mark.parametrize("role", [ACTIVE, SPARE])
def test_its_container_is_started_again(role: str, site: Site) -> None:
    web = withdrawn(site, role)
    web.container_becomes("Stopped")
    site.watch(60)
    assert (web.serves, web.container.config[ROLE_KEY]) == (True, ACTIVE), site.log
    assert site.journal.state("web").side is Side.STANDBY


@pytest.mark.parametrize("role", [ACTIVE, SPARE])
def test_its_copy_is_refreshed(role: str, site: Site) -> None:
    web = withdrawn(site, role)
    before = len(site.log)
    site.watch(80)
    assert sum("web: copied to sec2" in line for line in site.log[before:]) == 2, site.log
    config = web.container.config
    assert (config[ROLE_KEY], config[EPOCH_KEY]) == (ACTIVE, "2")


def test_one_of_another_controller_is_left_alone_aloud(site: Site) -> None:
    web = site.world.services["web"]
    site.watch(8)
    web.container.config |= {EPOCH_KEY: "7"}
    web.container_becomes("Stopped")
    site.watch(60)
    assert not web.serves
    said = "web: the standby is to serve and has ended, and its container is of epoch 7, not 2: another controller"
    assert sum(said in line for line in site.log) == 1, site.log
