"""Which storage pools can hold standbys."""

from __future__ import annotations

from pathlib import Path

import pytest

from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.errors import ExternalError
from vcrecovery.plan.load import load_plan
from vcrecovery.standby.container import apply


class OnePool(LxdServer):
    """A server whose only pool has this driver."""

    def __init__(self, driver: str) -> None:
        super().__init__("sec1", Path("/none"), SystemClock())
        self._driver = driver

    def pool_driver(self, pool: str) -> str:
        return self._driver


@pytest.mark.parametrize("driver", ["lvm", "zfs", "ceph"])
def test_a_pool_whose_files_cannot_be_written_is_named(driver: str, plan_file: Path) -> None:
    wanted = rf"pool default of secondary sec1 has driver {driver}.* driver dir or btrfs; name another pool"
    with pytest.raises(ExternalError, match=wanted):
        apply(load_plan(plan_file), "web", OnePool(driver), SystemClock())
