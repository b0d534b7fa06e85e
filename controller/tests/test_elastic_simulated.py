"""A secondary that is made for a while, in a simulated world: whatever is killed, the service is on one side.

The site's other place is the machine that the cloud makes: it is there while the cloud has it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simulated.site import Site
from simulated.world import with_a_spare
from vcrecovery.core.lease import LeaseState
from vcrecovery.drivers.lxd.instances import RUNNING
from vcrecovery.store.leases import LeaseBook

HERE, THERE = "sec1", "elastic-1"
USES, OTHERS = 0.5, 0.7
BALANCE = {
    "do": "move",
    "cpu_high": 50,
    "target": 40,
    "high_for": "10s",
    "again_after": "30s",
    "elastic": {
        "template": {"cores": 2, "memory": "4GiB", "networks": ["10.30.1.1/24"], "bridge": "vcr0"},
        "provisioner": {"command": ["cloud"], "timeout": "30s"},
        "certificate": "/controller.crt",
        "key": "/controller.key",
        "join_within": "60s",
        "release_after": "60s",
    },
}


class Cloudy(Site):
    """web is served by its standby, whose secondary has too much to do."""

    def __init__(self, folder: Path, seed: int | None = None) -> None:
        trusted = folder / "controller.crt"
        trusted.write_text("TRUSTED")
        elastic: Any = {**BALANCE["elastic"], "certificate": str(trusted)}  # type: ignore[dict-item]
        super().__init__(folder, seed=seed, plan={"balance": {**BALANCE, "elastic": elastic}})
        self.web = self.world.services["web"]
        with_a_spare(self.web, THERE, "10.30.1.2")
        other = self.web.other
        assert other is not None
        self.there = other
        self.watch(1)
        self.crash("web")
        self.watch(20)

    def load(self, *, high: bool) -> None:
        for place in (self.web, self.there):
            place.standby_uses, place.others_use = USES, 0.0
        self.web.others_use = OTHERS if high else 0.0

    def goes_on(self, seconds: float) -> None:
        """In turns, in which the machine is what the cloud says."""
        for _ in range(int(seconds / 5)):
            self.watch(5)
            exists = self.world.cloud.paid_for > 0
            if self.there.machine_is_off is exists:
                if exists:
                    self.there.machine_is_off = False
                else:
                    assert self.there.container.status != RUNNING, "it was destroyed while something ran there"
                    assert not self.web.is_filled, "it was destroyed while its last copy was on its way home"
                    self.world.machine_ends(THERE)
                    self.there.is_there = False
            assert self.world.cloud.paid_for <= 1

    @property
    def leases(self) -> list[Any]:
        return LeaseBook(self.journal).newest(9)


#: Seconds; in the second of them an empty machine would be given back.
COPIES_TAKE = [2.0, 90.0]


@pytest.mark.parametrize("copy_takes", COPIES_TAKE)
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_it_goes_there_and_home_again(tmp_path: Path, seed: int | None, copy_takes: float) -> None:
    site = Cloudy(tmp_path, seed)
    site.world.copy_takes = copy_takes
    site.there.machine_is_off = True
    site.load(high=True)
    site.goes_on(120 + 3 * copy_takes)
    assert (site.there.container.status, site.there.serves) == (RUNNING, True), "\n".join(site.log)
    site.load(high=False)
    site.goes_on(300 + 3 * copy_takes)
    assert (site.web.serves, site.there.container.status == RUNNING) == (True, False), "\n".join(site.log[-40:])
    assert [lease.state for lease in site.leases] == [LeaseState.GONE]
    assert site.world.cloud.paid_for == 0


@pytest.mark.parametrize("copy_takes", COPIES_TAKE)
@pytest.mark.parametrize("part", range(12))
def test_a_watcher_that_is_killed_goes_on(tmp_path: Path, part: int, copy_takes: float) -> None:
    """At places all over the way there and back: no two of it run, and no machine is left."""
    site = Cloudy(tmp_path, part)
    site.world.copy_takes = copy_takes
    site.there.machine_is_off = True
    site.load(high=True)
    site.kill_at = site.boundaries + 2 + 3 * part
    site.goes_on(120 + 3 * copy_takes)
    site.load(high=False)
    site.goes_on(600 + 3 * copy_takes)
    assert site.kill_at is None, "it was not killed"
    assert site.web.serves, "\n".join(site.log[-40:])
    assert not [lease for lease in site.leases if lease.is_open], "\n".join(site.log[-40:])
    assert site.world.cloud.paid_for == 0


def test_when_it_fails_its_services_go_home_on_the_operators_word(tmp_path: Path) -> None:
    site = Cloudy(tmp_path)
    site.there.machine_is_off = True
    site.load(high=True)
    site.goes_on(120)
    assert site.there.serves
    site.load(high=False)
    site.world.machine_ends(THERE)
    site.watch(30)
    assert not site.web.serves
    site.there.said_to_be_off = True
    # Its copy at home is older than its max_staleness of a minute.
    site.failover(to=HERE, secondary_is_down=THERE, force=True)
    site.watch(30)
    assert site.web.serves, "\n".join(site.log[-30:])


def test_nothing_fails_over_to_one_that_is_being_destroyed(tmp_path: Path) -> None:
    """Its LXD still answers, and has the copy of when web went home: it would be gone in a moment, with web on it."""
    site = Cloudy(tmp_path)
    cloud, destroy = site.world.cloud, site.world.cloud.destroy

    def takes_its_time(order: Any) -> Any:
        if not site.web.machine_is_off:
            site.world.machine_ends(HERE)
            site.web.said_to_be_off = True
            site.begin_failover(to=THERE, force=True, secondary_is_down=HERE)
        site.scheduler.sleep(20)
        return destroy(order)

    cloud.destroy = takes_its_time  # type: ignore[method-assign]
    site.there.machine_is_off = True
    site.load(high=True)
    site.goes_on(120)
    assert site.there.serves
    site.load(high=False)
    site.goes_on(300)
    assert [lease.state for lease in site.leases] == [LeaseState.GONE]
    said = [line for line in site.log if "elastic-1 is being given back, and may be gone at any moment" in line]
    assert said, "\n".join(site.log[-30:])
