"""A service leaves the plan, or gets another name, while its standby serves: nobody looks after that any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulated.observed import Observed
from simulated.site import Site
from vcrecovery.core.notice import Topic
from vcrecovery.report.findings import Finding, Level
from vcrecovery.report.secondaries import of_secondaries


def seen(site: Site) -> list[Finding]:
    process, env = site.process("status")
    found: list[Finding] = []
    site.scheduler.spawn(process, lambda: found.extend(of_secondaries(env)), "status")
    site.do(process)
    return found


def without_web(folder: Path, killed_at: str = "") -> Site:
    site = Observed(folder, {"web": {}, "db": {}})
    site.watch(3)
    site.kill_at = killed_at or None
    site.crash("web")
    site.watch(20, again=not killed_at)
    site.kill_watcher()
    assert seen(site) == []
    del site.plan.services["web"]
    site.watch(20)
    return site


def test_status_names_one_whose_standby_serves(memory_path: Path) -> None:
    site = without_web(memory_path)
    assert site.world.services["web"].serves
    (found,) = seen(site)
    assert (found.level, found.topic) == (Level.ATTENTION, Topic.UNPROTECTED)
    assert str(found) == (
        "web: it is not in the plan any more, and its standby on sec1 serves, at epoch 1: nothing is done to it, also "
        "when it fails; put it back into the plan under this name, then `vcrecovery failback web`; if it is not wanted "
        "any more: `lxc delete -f web` on sec1"
    )


@pytest.mark.parametrize("place", ["journalled fence", "after fence", "before start"])
def test_status_names_one_whose_failover_nobody_brings_to_its_end(place: str, memory_path: Path) -> None:
    (found,) = seen(without_web(memory_path, place))
    assert "it is not in the plan any more, and its failover of epoch 1 is not finished" in str(found)
    assert "put it back into the plan under this name, then `vcrecovery failover web`; if" in str(found)


def test_one_that_cannot_be_asked_for_is_named_too(memory_path: Path) -> None:
    site = without_web(memory_path)
    site.change(["web"], {"lxd_answers": False})
    (found,) = seen(site)
    assert "its standby on sec1 serves, at epoch 1" in str(found)


def test_one_whose_container_was_deleted_is_done_with(memory_path: Path) -> None:
    site = without_web(memory_path)
    site.world.services["web"].is_there = False
    assert seen(site) == []


def test_one_whose_vm_serves_needs_nobody(memory_path: Path) -> None:
    site = Observed(memory_path, {"web": {}, "db": {}})
    site.watch(3)
    site.crash("web")
    site.watch(20)
    site.failback(name="web")
    site.kill_watcher()
    del site.plan.services["web"]
    assert seen(site) == []
