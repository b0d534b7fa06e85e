"""An LXD of the lab's own leaves nothing behind, whatever state it is in."""

from __future__ import annotations

from pathlib import Path

import pytest

from vcrecovery_lab.private_lxd import PrivateLxd
from vcrecovery_lab.run import run

pytestmark = pytest.mark.lab

BRIDGE, GATEWAY = "vcrlab-left", "10.211.26.1/24"


def rules(name: str) -> list[str]:
    saved = run(["iptables-save", "-t", "filter"], timeout=30).stdout
    return [line for line in saved.splitlines() if f" {name} " in line]


def test_nothing_is_left_of_one_that_was_killed() -> None:
    lxd = PrivateLxd(BRIDGE)
    try:
        lxd.start()
        lxd.server.create_network(BRIDGE, GATEWAY)
        assert rules(BRIDGE)
        lxd.kill()
    finally:
        lxd.close()
    assert rules(BRIDGE) == []
    assert BRIDGE not in run(["ip", "-brief", "link"], timeout=30).stdout
    assert str(lxd.folder) not in Path("/proc/mounts").read_text()
    assert not lxd.folder.exists()
