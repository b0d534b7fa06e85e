"""A standby on btrfs: made, filled, promoted."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Lab
from .own_standby import own_standby, pool

pytestmark = pytest.mark.lab


def test_btrfs(lab: Lab, tmp_path: Path) -> None:
    with pool(lab, "vcrt-btrfs", "btrfs", size="1GiB") as name, own_standby(lab, "vcrt-b", name, tmp_path) as standby:
        standby.make_source()
        assert "container vcrt-b created" in standby.apply()
        assert standby.apply() == "vcrt-b: nothing to do"
        assert standby.sync().returncode == 0
        done = standby.fail_over()
        assert done.returncode == 0, done.stderr
        assert standby.inside("cat", "/www/index.html") == "one\n"
        assert "nothing to do" in standby.fail_over().stdout
