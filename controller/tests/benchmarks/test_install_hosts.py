"""The sites of so many hosts that `make bench-hosts` lays out."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from install_bench.hosts import SITES, inventory
from vcrecovery.plan.load import load_plan
from vcrecovery_lab.systems import SYSTEMS


@pytest.mark.parametrize("hosts", SITES)
def test_its_plan_is_a_good_one(hosts: int, tmp_path: Path) -> None:
    site = inventory(hosts, SYSTEMS["debian-12"])["all"]
    groups = site["children"]
    assert len({host for group in groups.values() for host in group["hosts"]}) == hosts
    (tmp_path / "plan.yml").write_text(yaml.safe_dump(site["vars"]["vcrecovery_plan"]))
    assert set(load_plan(tmp_path / "plan.yml").services) == set(groups["primaries"]["hosts"])
