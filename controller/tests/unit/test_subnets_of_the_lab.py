"""The lanes of the lab's tests run beside each other: no two of their networks may be the same one."""

from __future__ import annotations

import re
from pathlib import Path

from lab.two_secondaries import SPARE_GATEWAY
from vcrecovery_lab.secondary_vm.site import NETWORK

CONTROLLER = Path(__file__).resolve().parents[2]


def test_the_spares_network_is_nobody_elses() -> None:
    own = SPARE_GATEWAY.rpartition(".")[0]
    assert own != NETWORK
    users = {
        path.name
        for folder in ("lab", "tests/lab", "benchmarks")
        for path in (CONTROLLER / folder).rglob("*.py")
        if re.search(rf"\b{re.escape(own)}\.", path.read_text())
    }
    assert users == {"two_secondaries.py"}
