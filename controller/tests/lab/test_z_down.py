"""Removing the lab leaves nothing of it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from vcrecovery_lab import machine
from vcrecovery_lab.lab import down
from vcrecovery_lab.layout import BRIDGE
from vcrecovery_lab.run import run

from .conftest import BLANK, Lab

pytestmark = pytest.mark.lab


def lab_processes(lab: Lab) -> list[str]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(lab.layout.root) in command and "pytest" not in command:
            found.append(command)
    return found


def layout_rules(lab: Lab) -> list[str]:
    """What the firewall says about the standbys' bridge."""
    saved = run(["iptables-save", "-t", "filter"], timeout=30).stdout
    return [line for line in saved.splitlines() if f" {lab.layout.network} " in line]


def kill_as_a_crash_does(lab: Lab) -> None:
    """LXD and libvirt, where the lab had to start them by hand. Their sockets stay."""
    for name in ("lxd", "libvirtd"):
        record = lab.layout.run_dir / f"daemons/{name}.json"
        if record.exists():
            os.kill(json.loads(record.read_text())["pid"], signal.SIGKILL)


def test_nothing_is_left(lab: Lab) -> None:
    pool = Path("/var/lib/lxd/storage-pools") / lab.layout.pool
    assert pool.exists()
    assert lab_processes(lab)
    machine.destroy_and_undefine_blank(BLANK)
    kill_as_a_crash_does(lab)
    down(lab.layout)
    links = run(["ip", "-brief", "link"], timeout=20).stdout.split()
    assert {lab.layout.network, BRIDGE}.isdisjoint(links)
    # LXD 5.0 forgets them.
    assert layout_rules(lab) == []
    assert not pool.exists()
    assert not lab.layout.root.exists()
    assert not lab.layout.run_dir.exists()
    assert str(lab.layout.root) not in Path("/proc/mounts").read_text()
    assert lab_processes(lab) == []
    down(lab.layout)  # a second time there is nothing to do
