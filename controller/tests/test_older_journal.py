"""The controller's machine was put back to a backup of before a failover: its journal does not know of that."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from simulated.looking import seen
from simulated.observed import Observed
from simulated.site import Site
from vcrecovery.core.notice import Topic
from vcrecovery.core.power import Power
from vcrecovery.report.findings import Level, findings
from vcrecovery.report.protection import Protection, protection

#: Longer than the standby may be old.
LATER = 600.0


def copied(of: Path, to: Path) -> None:
    with closing(sqlite3.connect(of)) as db, closing(sqlite3.connect(to)) as copy:
        db.backup(copy)


def of_before_a_failover(memory_path: Path, backup: Path) -> Site:
    site = Observed(memory_path)
    site.watch(5)
    journal = site.plan.state_dir / "journal.db"
    copied(journal, backup)
    site.crash("web")
    site.watch(LATER)
    site.kill_watcher()
    copied(backup, journal)
    site.watch(30)
    return site


def test_status_says_who_serves_and_not_to_point_dns_back(memory_path: Path, tmp_path: Path) -> None:
    site = of_before_a_failover(memory_path, tmp_path / "backup.db")
    assert site.world.services["web"].serves
    view = seen(site)
    (found,) = findings(view)
    assert (found.level, found.topic) == (Level.ATTENTION, Topic.UNPROTECTED)
    assert str(found) == (
        "web: its standby on sec1 serves, at epoch 1, and the journal of this controller, at epoch 0, does not know "
        "that: another controller has failed over since, or this journal is an older one; start no VM and leave DNS as "
        "it is; where no other controller is at work: `vcrecovery failover web --force` has this one know"
    )
    assert protection(view).level is Protection.UNPROTECTED


def test_the_way_out_is_one(memory_path: Path, tmp_path: Path) -> None:
    site = of_before_a_failover(memory_path, tmp_path / "backup.db")
    starts = site.world.services["web"].container.started_at
    site.begin_failover(force=True)
    site.watch(30)
    web = site.world.services["web"]
    assert (web.serves, web.dns_address, web.container.started_at) == (True, "standby", starts), site.log
    assert [found.sentence for found in findings(seen(site)) if "journal" in found.sentence] == []
    site.failback()
    site.watch(30)
    assert findings(seen(site)) == []


@pytest.mark.parametrize("back", ["failback", "reset"])
def test_of_before_it_went_back_to_its_vm(back: str, memory_path: Path, tmp_path: Path) -> None:
    """The only one that serves is not paused, nor destroyed by a failover that nobody forces."""
    site = Observed(memory_path, plan={"detection": {"hold_returning": True}})
    site.watch(5)
    site.crash("web")
    site.watch(10)
    journal, backup = site.plan.state_dir / "journal.db", tmp_path / "backup.db"
    copied(journal, backup)
    if back == "failback":
        site.failback()
    else:
        site.serve_from_primary("web")
    site.watch(60)
    site.kill_watcher()
    copied(backup, journal)
    site.watch(60)
    web = site.world.services["web"]
    assert (web.power, web.serves) == (Power.RUNNING, False), site.log
    (found,) = findings(seen(site))
    assert str(found) == (
        "web: by the journal of this controller its standby serves since epoch 1, and its container on sec1 stands by: "
        "another controller has gone back to its VM, or this journal is an older one; leave its VM and DNS as they "
        "are; `vcrecovery standby reset web` has this one know"
    )
    site.failover()
    assert "and its container stands by: another controller has gone back to its VM" in site.log[-1]
    site.reset("web")
    site.watch(60)
    assert (web.power, web.serves) == (Power.RUNNING, False), site.log
    site.acknowledge("web")
    assert findings(seen(site)) == []
    site.crash("web")
    site.watch(30)
    assert web.serves, site.log
