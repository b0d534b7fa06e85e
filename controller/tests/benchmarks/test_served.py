"""A service until users have it again: the real watcher, libvirt and BIND, and a standby that starts at once."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import pytest

from detect_bench.served import fail_and_wait
from vcrecovery_lab.private_libvirt import PrivateLibvirt

pytestmark = pytest.mark.lab


def test_users_have_the_service_after_the_failover_has_begun() -> None:
    libvirt = PrivateLibvirt()
    try:
        libvirt.start()
        with tempfile.TemporaryDirectory(prefix="vcrlab-") as folder:
            place = Path(folder) / "kill"
            back = fail_and_wait(place, libvirt, lambda pid: os.kill(pid, signal.SIGKILL), lambda _pid: None, 15.0)
    finally:
        libvirt.close()
    assert 0 < back.begun < back.answered < 60
