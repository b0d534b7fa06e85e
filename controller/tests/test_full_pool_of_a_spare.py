"""The pool to which a standby is copied is full: what only a copy has made goes, what stood by itself stays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simulated.lxd import SimulatedLxd
from simulated.observed import Observed
from simulated.site import Site
from vcrecovery.errors import ExternalError

Pull = Callable[..., None]


class Full:
    """The pool of `on` is, once `is_full`; `removed`: what was there, and goes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.on, self.tries, self.removed = "", 0, list[str]()
        pull: Pull = SimulatedLxd.pull
        full = self

        def pulls(lxd: SimulatedLxd, *asked: Any, **how: Any) -> None:
            if lxd.name != full.on:
                pull(lxd, *asked, **how)
                return
            full.tries += 1

            def is_cut_off() -> None:
                raise ExternalError("LXD: the copy of web: write failed: No space left on device")

            pull(lxd, *asked, **{**how, "look": is_cut_off})

        def deletes(lxd: SimulatedLxd, instance: str, _timeout: float = 60.0) -> None:
            full.removed.append(f"{instance} on {lxd.name}")
            lxd._place_of(instance).is_there = False

        monkeypatch.setattr(SimulatedLxd, "pull", pulls)
        monkeypatch.setattr(SimulatedLxd, "delete", deletes)


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Full:
    return Full(monkeypatch)


def served_by_its_standby(folder: Path) -> Site:
    site = Observed(folder, world={"spare": "sec2", "spare_every": "20s"})
    site.watch(3.0)
    site.crash("web")
    site.watch(10.0)
    return site


def move(site: Site, to: str) -> None:
    site.do(site.begin_failover(verb="move", to=to))


def test_where_it_is_at_home_the_container_stays(full: Full, memory_path: Path) -> None:
    """It has served there, and may have restore points; it was never a copy."""
    site = served_by_its_standby(memory_path)
    move(site, "sec2")
    full.on = "sec1"
    # Each time anew.
    site.watch(60.0)
    move(site, "sec1")
    assert full.tries > 2, site.log
    assert any("pool default of sec1 is full: the copy of web" in line for line in site.log), site.log
    assert full.removed == []
    assert site.world.services["web"].is_there


def test_one_that_waits_and_goes_home_leaves_that_too(full: Full, memory_path: Path) -> None:
    site = Observed(memory_path, world={"spare": "sec2"})
    site.watch(3.0)
    move(site, "sec2")
    full.on = "sec1"
    for _ in range(2):
        move(site, "sec1")
    assert full.tries == 2, site.log
    assert full.removed == []


def test_a_copy_that_was_never_whole_is_removed(full: Full, memory_path: Path) -> None:
    full.on = "sec2"
    site = served_by_its_standby(memory_path)
    site.watch(60.0)
    assert full.tries > 1, site.log
    assert set(full.removed) == {"web on sec2"}
    assert len(full.removed) == full.tries


def test_a_copy_that_was_whole_stays(full: Full, memory_path: Path) -> None:
    site = served_by_its_standby(memory_path)
    site.watch(20.0)
    full.on = "sec2"
    site.watch(60.0)
    assert full.tries > 1, site.log
    assert full.removed == []
