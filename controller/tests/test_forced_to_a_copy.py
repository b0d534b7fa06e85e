"""A failover by force to a spare whose copy is being refreshed: whoever refreshes it must not undo the claim."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulated.lxd import SimulatedLxd
from simulated.observed import Observed
from vcrecovery.core.episode import Outcome
from vcrecovery.standby.container import ACTIVE, EPOCH_KEY, ROLE_KEY


def copying(memory_path: Path) -> Observed:
    """Its standby serves on sec1, and `force` comes in the middle of a copy to sec2."""
    site = Observed(memory_path, world={"spare": "sec2", "spare_every": "5s"})
    site.watch(1)
    site.crash("web")
    return site


def force(site: Observed) -> None:
    """It answers no more where it serves."""
    site.change(["web"], {"standby_service_ended": True})
    site.begin_failover(to="sec2", force=True, secondary_is_down="sec1")


def on_spare(site: Observed) -> dict[str, str]:
    (place,) = site.world.in_lxd("sec2")
    return place.container.config


def test_it_is_refused_as_long_as_the_copy_goes_on(memory_path: Path) -> None:
    site = copying(memory_path)
    site.then["in the middle of copy"] = [lambda: force(site)]
    site.watch(30)
    assert any("LXD on sec2 still fills its copy (operation " in line for line in site.log), "\n".join(site.log)
    site.failover(to="sec2", force=True, secondary_is_down="sec1")
    site.watch(30)
    assert (on_spare(site)[ROLE_KEY], on_spare(site)[EPOCH_KEY]) == (ACTIVE, "2"), site.log
    assert site.journal.history("web")[-1].outcome is Outcome.DONE


def test_its_claim_stands_when_the_copy_ends_after_it(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LXD was done in that moment, and whoever had asked for the copy was about to note that."""
    monkeypatch.setattr(SimulatedLxd, "filled_by", lambda _self, _instance: None)
    site = copying(memory_path)
    site.then["in the middle of copy"] = [lambda: force(site)]
    site.watch(60)
    claimed = on_spare(site)
    assert (claimed[ROLE_KEY], claimed[EPOCH_KEY]) == (ACTIVE, "2"), "\n".join(site.log)
    assert any("container web on sec2 belongs to epoch 2" in line for line in site.log), "\n".join(site.log)
