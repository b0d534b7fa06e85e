"""A verb that is refused leaves what is under way as it was: nobody else would bring that to its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simulated.observed import Observed
from simulated.site import Site
from vcrecovery.core.episode import Outcome
from vcrecovery.core.power import Power
from vcrecovery.core.service_state import Side
from vcrecovery.drivers.lxd.instances import STOPPED


def test_a_failover_whose_secondary_is_away(memory_path: Path) -> None:
    """The watcher has destroyed a guest that hung. An old copy on the spare is no reason to give that failover up."""
    site = Observed(memory_path, world={"spare": "sec2", "spare_every": "5s"})
    site.watch(3)
    web = site.world.services["web"]
    site.crash("web")
    site.watch(30)
    site.serve_from_primary("web")
    site.acknowledge("web")
    site.watch(300)
    site.then["after fence"] = [lambda: setattr(web, "lxd_answers", False)]
    site.change(["web"], {"cpu": 100.0, "primary_ports_open": False})
    site.watch(120, to_the_end=False)
    begun = site.journal.state("web").open_episode
    assert begun is not None, "\n".join(site.log)
    assert web.power is Power.SHUTOFF
    site.failover(to="sec2", force=True)
    assert site.journal.state("web").open_episode == begun, site.log
    assert "a failover of web is under way" in "\n".join(site.log[-5:])
    web.lxd_answers = True
    site.watch(60)
    assert web.serves, site.log


def stopped_in_its_failback(folder: Path, place: str) -> Site:
    site = Site(folder)
    site.watch(3)
    site.crash("web")
    site.watch(30)
    site.kill_watcher()
    site.kill_at = place
    site.failback()
    return site


#: Where a failback is stopped, with the VM serving again from the first one on.
FAILED_BACK = ["before probe", "before switch", "before keep"]


@pytest.mark.parametrize("words", [{"restore_point": "typo"}, {"primary_is_down": True}], ids=["restore", "word"])
@pytest.mark.parametrize("place", FAILED_BACK)
def test_a_failback(place: str, words: dict[str, Any], memory_path: Path) -> None:
    site = stopped_in_its_failback(memory_path, place)
    begun = site.journal.state("web").open_episode
    assert begun is not None, site.log
    assert begun.request.back
    site.failover(**words)
    assert site.journal.state("web").open_episode == begun, site.log
    assert "RefusedError: " in site.log[-1] or "NotNowError: " in site.log[-1], site.log
    site.failback()
    assert site.journal.state("web").side is Side.PRIMARY
    assert site.world.services["web"].dns_address == "primary", site.log
    assert site.journal.history("web")[0].outcome is Outcome.DONE


@pytest.mark.parametrize("words", [{}, {"force": True}], ids=["plain", "forced"])
@pytest.mark.parametrize("place", ["after boot", "before copy", "after copy"])
def test_a_standby_that_ends_while_its_vm_fetches_is_brought_up(
    place: str, words: dict[str, Any], memory_path: Path
) -> None:
    """The failback is given up for that: its VM, which runs, holds nothing of its own, and ends."""
    site = stopped_in_its_failback(memory_path, place)
    web = site.world.services["web"]
    assert web.power is Power.RUNNING, site.log
    web.container_becomes(STOPPED, "root over unix")
    site.failover(**words)
    assert (web.serves, web.power) == (True, Power.SHUTOFF), site.log
