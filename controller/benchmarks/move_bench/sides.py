"""Two LXDs on this machine, and a service whose standby serves on the first one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from vcrecovery.drivers.clock import SystemClock
from vcrecovery.plan.load import load_plan
from vcrecovery.standby.container import apply
from vcrecovery_lab.busybox_tree import give_away, plant, stamp
from vcrecovery_lab.checkpointing_lxd import CheckpointingLxd, join
from vcrecovery_lab.command_line import vcrecovery
from vcrecovery_lab.pair.waiting import wait_until
from vcrecovery_lab.ports import free_port
from vcrecovery_lab.private_lxd import PrivateLxd
from vcrecovery_lab.progress import Progress

from .client import answers
from .scale import Scale

NAME, PORT, COUNTER_PORT = "web", 7081, 7082
OLD, NEW = "10.211.6.10", "10.211.7.10"
BRIDGES = ("vcrlab-move1", "vcrlab-move2")
#: Of two that share a network.
SHARED, KEPT = "vcrlab-share", "10.211.23.10"
PATIENCE = 600.0
_INIT = f"""\
#!/bin/busybox sh
trap 'exit 0' 3 15 30 37
/bin/busybox httpd -p {PORT} -h /www
/bin/busybox nc -ll -p {COUNTER_PORT} -e /bin/count </dev/null >/dev/null 2>&1 &
/bin/busybox awk 'BEGIN {{ s = "0123456789abcdef"; while (length(s) < BYTES) s = s s; while (1) system("sleep 60") }}' &
while :; do /bin/busybox sleep 1 & wait $!; done
"""
_COUNT = """\
#!/bin/busybox sh
n=0
while read line; do n=$((n+1)); echo $n; done
"""


class Sides:
    """`first` is where it serves at the beginning and at the end of each round."""

    #: Of the two bridges, and of the standby on either.
    networks = ("10.211.6.1/24", "10.211.7.1/24")
    addresses = (OLD, NEW)

    def __init__(self, folder: Path, first: PrivateLxd, second: PrivateLxd) -> None:
        self.folder, self.first, self.second = folder, first, second
        self.plan = folder / "plan.yml"
        self.plan.write_text(yaml.safe_dump(self._plan()))

    def _plan(self) -> dict[str, Any]:
        def secondary(lxd: PrivateLxd, network: str) -> dict[str, Any]:
            return {
                "lxd": str(lxd.socket),
                "storage_pool": lxd.network,
                "network": {"bridge": lxd.network, "address": network},
                "receiver": {"address": "127.0.0.1"},
            }

        old, new = self.addresses
        fence = {"command": ["echo", "nobody is there"]}
        return {
            "version": 1,
            "state_dir": str(self.folder / "state"),
            "hypervisors": {"hv1": {"uri": f"qemu:///session?socket={self.folder}/none", "fence": fence}},
            "secondaries": {
                name: secondary(lxd, network)
                for name, lxd, network in zip(("sec1", "sec2"), (self.first, self.second), self.networks, strict=True)
            },
            "services": {
                NAME: {
                    "primary": {
                        "hypervisor": "hv1",
                        "uuid": "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e6001",
                        "address": "127.0.6.1",
                    },
                    "standby": {"secondary": "sec1", "address": old, "spare": {"secondary": "sec2", "address": new}},
                    "ports": [PORT],
                    "timeouts": {"stable_for": "1ms"},
                    "max_staleness": "1d",
                }
            },
        }

    def vcrecovery(self, *words: str) -> None:
        """Raises LabError with what it says."""
        vcrecovery(self.plan, *words)

    def tree(self, lxd: PrivateLxd) -> Path:
        return lxd.server.rootfs(lxd.network, NAME)

    def fill(self, scale: Scale) -> None:
        """A system of one busybox, and what it serves."""
        top = self.tree(self.first)
        programs = {"sbin/init": _INIT.replace("BYTES", str(scale.memory << 20)), "bin/count": _COUNT}
        plant(top, programs, ("www", "etc", "proc", "sys", "dev", "run", "tmp"))
        (top / "www/index.html").write_text("web\n")
        stamp(top, time.time())
        each = scale.megabytes * 1_000_000 // scale.files
        for number in range(scale.files):
            folder = top / f"www/{number % 100:02d}"
            folder.mkdir(exist_ok=True)
            (folder / f"{number}").write_bytes(os.urandom(each))
        give_away(top)

    def serves(self, address: str) -> None:
        wait_until(lambda: answers(address, PORT), f"the page at {address}", 60, 0.01)


class SharedSides(Sides):
    """With CRIU, and in one network, in which it keeps its address."""

    networks = ("10.211.23.1/24", "10.211.23.2/24")
    addresses = (KEPT, KEPT)


@contextmanager
def shared_sides(folder: Path, scale: Scale, progress: Progress) -> Iterator[SharedSides]:
    with ExitStack() as ends:
        lxds = [CheckpointingLxd(SHARED, number) for number in (1, 2)]
        for lxd in lxds:
            ends.callback(lxd.close)
            lxd.start()
        first, second = lxds
        found = SharedSides(folder, first, second)
        apply(load_plan(found.plan), NAME, first.server, SystemClock())
        second.server.create_pool(SHARED)
        second.server.create_network(SHARED, SharedSides.networks[1])
        join(first, second, "vcrlab-shctl", "10.211.23.254/24")
        for lxd, network in zip(lxds, SharedSides.networks, strict=True):
            lxd.lxc("config", "set", "core.https_address", f"{network.partition('/')[0]}:{free_port()}")
        with progress(f"a container of {scale.megabytes} MB in {scale.files} files, {scale.memory} MB of memory"):
            found.fill(scale)
        found.vcrecovery("failover", NAME)
        yield found


@contextmanager
def sides(folder: Path, scale: Scale, progress: Progress) -> Iterator[Sides]:
    with ExitStack() as ends:
        lxds = [PrivateLxd(bridge) for bridge in BRIDGES]
        for lxd in lxds:
            ends.callback(lxd.close)
            lxd.start()
            lxd.lxc("config", "set", "core.https_address", f"127.0.0.1:{free_port()}")
        found = Sides(folder, *lxds)
        plan = load_plan(found.plan)
        apply(plan, NAME, lxds[0].server, SystemClock())
        with progress(f"a container of {scale.megabytes} MB in {scale.files} files"):
            found.fill(scale)
        found.vcrecovery("failover", NAME)
        yield found
