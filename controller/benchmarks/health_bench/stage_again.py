"""A container that serves is killed: until it answers again, against a failover of the same service in the same run.

A real LXD of its own, a standby of one busybox, a real `vcrecovery watch`. Its hypervisor does not answer, as after a
failure of a site: the failover is on the operator's word.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from vcrecovery.drivers.clock import SystemClock
from vcrecovery.plan.load import load_plan
from vcrecovery.standby.container import apply
from vcrecovery_lab.busybox_tree import give_away, plant, stamp
from vcrecovery_lab.command_line import vcrecovery
from vcrecovery_lab.pair.waiting import wait_until
from vcrecovery_lab.private_lxd import PrivateLxd

NAME, BRIDGE, ADDRESS, PORT = "web", "vcrlab-again", "10.211.9.10", 7080
#: Seconds for anything to happen.
PATIENCE = 60.0
_INIT = f"""\
#!/bin/busybox sh
trap 'exit 0' 3 15 30 37
/bin/busybox httpd -p {PORT} -h /
while :; do /bin/busybox sleep 1 & wait $!; done
"""


@dataclass(frozen=True)
class Again:
    """Seconds until the port answers, of each round: from the failover's command, and from the container's end."""

    failovers: list[float]
    restarts: list[float]

    @property
    def ratio(self) -> float:
        """Of the medians."""
        return median(self.restarts) / median(self.failovers)


def again(folder: Path, rounds: int) -> Again:
    """So many of each, in turns."""
    lxd = PrivateLxd(BRIDGE)
    failovers, restarts = [], []
    with closing(lxd):
        plan = _plan(folder, lxd.socket)
        lxd.start()
        apply(load_plan(plan), NAME, lxd.server, SystemClock())
        _fill(lxd.server.rootfs(BRIDGE, NAME))
        for _ in range(rounds):
            begun = time.monotonic()
            _call(plan, "failover", NAME, "--primary-is-down", NAME)
            failovers.append(_answers(begun))
            with _watched(plan, folder):
                wait_until(lambda: _health(plan) == "answers", "a good health", PATIENCE)
                pid = int(json.loads(lxd.lxc("query", f"/1.0/instances/{NAME}/state"))["pid"])
                begun = time.monotonic()
                os.kill(pid, signal.SIGKILL)
                wait_until(lambda: not _is_open(), "the end of the port", PATIENCE, 0.01)
                restarts.append(_answers(begun))
                wait_until(lambda: _health(plan) == "answers", "a good health", PATIENCE)
            lxd.lxc("stop", "--force", NAME)
            _call(plan, "standby", "reset", NAME)
            stamp(lxd.server.rootfs(BRIDGE, NAME), time.time())
    return Again(failovers, restarts)


def _plan(folder: Path, lxd: Path) -> Path:
    service = {
        "primary": {"hypervisor": "hv1", "uuid": "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e5000", "address": "127.0.6.1"},
        "standby": {"secondary": "sec1", "address": ADDRESS},
        "ports": [PORT],
        "sync": {"exclude_profile": None},
    }
    secondary = {
        "lxd": str(lxd),
        "storage_pool": BRIDGE,
        "network": {"bridge": BRIDGE, "address": "10.211.9.1/24"},
        "receiver": {"address": "127.0.0.1"},
    }
    data: dict[str, Any] = {
        "version": 1,
        "state_dir": str(folder / "state"),
        "hypervisors": {"hv1": {"uri": f"qemu:///session?socket={folder}/none"}},
        "secondaries": {"sec1": secondary},
        # Each round has a failover, and then an end.
        "detection": {"probe_every": "1s"},
        "services": {NAME: service},
    }
    plan = folder / "plan.yml"
    plan.write_text(yaml.safe_dump(data))
    return plan


def _fill(top: Path) -> None:
    plant(top, {"sbin/init": _INIT})
    stamp(top, time.time())
    give_away(top)


def _call(plan: Path, *words: str) -> str:
    return vcrecovery(plan, *words, timeout=120)


def _health(plan: Path) -> str:
    (found,) = json.loads(_call(plan, "status", "--json"))["services"]
    return str(found["health"])


@contextmanager
def _watched(plan: Path, folder: Path) -> Iterator[None]:
    with (folder / "watch.log").open("ab") as log:
        command = [sys.executable, "-m", "vcrecovery", "watch", "--plan", str(plan)]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_until(lambda: "watching 1 service" in (folder / "watch.log").read_text(), "the watcher", PATIENCE)
        yield
    finally:
        process.terminate()
        process.wait(timeout=30)


def _answers(begun: float) -> float:
    """Seconds since then, once it does."""
    wait_until(_is_open, "the port", PATIENCE, 0.01)
    return time.monotonic() - begun


def _is_open() -> bool:
    with contextlib.suppress(OSError), socket.create_connection((ADDRESS, PORT), timeout=1.0):
        return True
    return False
