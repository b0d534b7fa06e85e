"""A VM that was set to start with its hypervisor is set so again by its failback, whoever has kept it from that."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulated.site import Site
from vcrecovery.core.power import Power
from vcrecovery.core.service_state import Side


def quarantined(folder: Path, *, autostart: bool = True) -> Site:
    """Its hypervisor was away when its standby took over, and has started it since."""
    site = Site(folder, world={"autostart": autostart}, plan={"detection": {"hold_returning": True}})
    web = site.world.services["web"]
    site.watch(1)
    site.change(["web"], {"hypervisor_answers": False})
    site.world.becomes(web, Power.SHUTOFF)
    site.failover(primary_is_down=True)
    assert (web.serves, web.autostart) == (True, autostart)
    site.change(["web"], {"hypervisor_answers": True})
    web.is_started_by_hand()
    site.world.becomes(web, Power.RUNNING)
    site.watch(20)
    assert (web.power, web.autostart) == (Power.PAUSED, False), site.log
    return site


@pytest.mark.parametrize("autostart", [True, False])
def test_one_that_was_quarantined(autostart: bool, memory_path: Path) -> None:
    site = quarantined(memory_path, autostart=autostart)
    site.failback()
    web = site.world.services["web"]
    assert (site.journal.state("web").side, web.autostart) == (Side.PRIMARY, autostart), site.log


def test_what_its_operator_has_set_since_a_failback_counts(memory_path: Path) -> None:
    """What was before that was seen to."""
    site = quarantined(memory_path)
    site.failback()
    web = site.world.services["web"]
    web.autostart = False
    site.watch(5)
    site.crash("web")
    site.watch(5)
    assert web.serves, site.log
    site.failback()
    assert (site.journal.state("web").side, web.autostart) == (Side.PRIMARY, False), site.log


def test_a_failback_that_goes_back_forgets_nothing(memory_path: Path) -> None:
    site = quarantined(memory_path)
    site.then["ended stop"] = [lambda: site.change(["web"], {"fetches_within": None})]
    site.failback()
    web = site.world.services["web"]
    assert web.serves, site.log
    site.then.clear()
    site.change(["web"], {"fetches_within": 2.0})
    site.failback()
    assert (site.journal.state("web").side, web.autostart) == (Side.PRIMARY, True), site.log
