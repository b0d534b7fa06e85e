"""A VM that is migrated to a hypervisor that the plan does not have: nobody looks there, and it may serve."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulated.observed import Observed
from vcrecovery.core.power import Power


@pytest.mark.parametrize("symptom", ["force", "hangs"])
@pytest.mark.parametrize("place", ["journalled confirm", "after confirm", "journalled fence"])
def test_in_the_middle_of_its_failover(place: str, symptom: str, memory_path: Path) -> None:
    """libvirt said that it runs, and at the fence none of them knows it: that is no proof that it has ended."""
    site = Observed(memory_path, plan={"detection": {"cpu_zero_for": "10s"}})
    site.watch(5)
    web = site.world.services["web"]
    site.then[place] = [lambda: site.world.migrate(web, "hv7")]
    if symptom == "force":
        site.failover(force=True)
    else:
        site.change(["web"], {"cpu": 0.0, "primary_ports_open": False})
        site.watch(30)
    assert (web.power, web.serves) == (Power.RUNNING, False), site.log


def test_zabbix_says_that_it_has_crashed(memory_path: Path) -> None:
    """Of a VM that nobody knows only Zabbix has heard how it ended; not of one that was seen to leave."""
    site = Observed(memory_path)
    site.watch(5)
    web = site.world.services["web"]
    site.world.migrate(web, "hv7")
    site.watch(3)
    site.change(["web"], {"primary_ports_open": False})
    site.do(site.zabbix_event())
    assert (web.power, web.serves) == (Power.RUNNING, False), site.log
    assert "being migrated" in site.log[-2], site.log
