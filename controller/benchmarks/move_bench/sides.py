"""Two LXDs, and a service whose standby serves on the first one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import yaml

from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.plan.load import load_plan
from vcrecovery.plan.places import place
from vcrecovery.standby.container import apply, config_of, devices_of, secondary_of
from vcrecovery_lab.busybox_tree import give_away, plant, stamp
from vcrecovery_lab.checkpointing_lxd import CheckpointingLxd, join
from vcrecovery_lab.command_line import vcrecovery
from vcrecovery_lab.pair.waiting import wait_until
from vcrecovery_lab.ports import free_port
from vcrecovery_lab.private_lxd import PrivateLxd
from vcrecovery_lab.progress import Progress
from vcrecovery_lab.run import run

from .client import Pace, answers
from .scale import Scale

NAME, PORT, COUNTER_PORT = "web", 7081, 7082
BRIDGES = ("vcrlab-move1", "vcrlab-move2")
#: Of two that share a network.
SHARED = "vcrlab-share"
PATIENCE = 600.0
RSYNC_COMMAND = ("rsync", "-aHAXS", "--numeric-ids", "--delete")
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


class Lxd(Protocol):
    """The one of a side."""

    server: LxdServer

    def lxc(self, *words: str) -> str:
        """As an operator calls it."""


class Sides:
    """`first` is where it serves at the beginning and at the end of each round. `addresses`: its own on either.

    `card`: what receives on this machine all that the first side sends, and little else; `counts_all`: of each way.
    """

    networks: Sequence[str] = ("10.211.6.1/24", "10.211.7.1/24")
    addresses: Sequence[str] = ("10.211.6.10", "10.211.7.10")
    timeouts: Mapping[str, str] = MappingProxyType({"stable_for": "1ms"})
    card = "lo"
    #: rsync is on one machine here, and uses no network.
    counts_all = False
    #: How it goes back from a move with its memory.
    goes_back = "stateful"
    #: Of who asks it meanwhile.
    pace = Pace(0.01, 0.25)

    def __init__(self, folder: Path, first: Lxd, second: Lxd) -> None:
        self.folder, self.first, self.second = folder, first, second
        self.plan = folder / "plan.yml"
        self.write_plan()

    def write_plan(self) -> None:
        self.plan.write_text(yaml.safe_dump(self._plan()))

    def _plan(self) -> dict[str, Any]:
        old, new = self.addresses
        fence = {"command": ["echo", "nobody is there"]}
        return {
            "version": 1,
            "state_dir": str(self.folder / "state"),
            "hypervisors": {"hv1": {"uri": f"qemu:///session?socket={self.folder}/none", "fence": fence}},
            "secondaries": {
                name: self.secondary(lxd, network)
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
                    "timeouts": dict(self.timeouts),
                    "max_staleness": "1d",
                }
            },
        }

    def secondary(self, lxd: Any, network: str) -> dict[str, Any]:
        """As the plan has it."""
        return {
            "lxd": str(lxd.socket),
            "storage_pool": lxd.network,
            "network": {"bridge": lxd.network, "address": network},
            "receiver": {"address": "127.0.0.1", "port": 7022 if lxd is self.first else 7023},
        }

    def config(self, where: str) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
        """Of the container on that secondary, as the plan has it."""
        plan = load_plan(self.plan)
        place(plan, NAME, where)
        service = plan.services[NAME]
        secondary = secondary_of(plan, service)
        return config_of(service, secondary, ()), devices_of(service, secondary)

    def vcrecovery(self, *words: str) -> None:
        """Raises LabError with what it says."""
        vcrecovery(self.plan, *words)

    def tree(self, lxd: Any) -> Path:
        return Path(lxd.server.rootfs(lxd.network, NAME))

    def make_empty(self) -> None:
        """An empty container on the second side, whose owners LXD maps already."""
        self.second.server.pull(self.first.server, NAME, *self.config("sec2"), PATIENCE)
        run(["find", self.tree(self.second), "-mindepth", "1", "-delete"], timeout=PATIENCE)

    def rsync(self) -> None:
        """From the first side to the second one, where a container is."""
        here, there = (f"{self.tree(lxd)}/" for lxd in (self.first, self.second))
        run([*RSYNC_COMMAND, here, there], timeout=PATIENCE)

    def fill(self, scale: Scale) -> None:
        top = self.tree(self.first)
        plant_service(top, scale)
        stamp(top, time.time())
        give_away(top)

    def serves(self, address: str) -> None:
        wait_until(lambda: answers(address, PORT, self.pace.within), f"the page at {address}", 60, 0.01)


def plant_service(top: Path, scale: Scale) -> None:
    """A system of one busybox, and what it serves."""
    programs = {"sbin/init": _INIT.replace("BYTES", str(scale.memory << 20)), "bin/count": _COUNT}
    plant(top, programs, ("www", "etc", "proc", "sys", "dev", "run", "tmp"))
    (top / "www/index.html").write_text("web\n")
    each = scale.megabytes * 1_000_000 // scale.files
    for number in range(scale.files):
        folder = top / f"www/{number % 100:02d}"
        folder.mkdir(exist_ok=True)
        (folder / f"{number}").write_bytes(os.urandom(each))


class SharedSides(Sides):
    """With CRIU, and in one network, in which it keeps its address."""

    networks = ("10.211.23.1/24", "10.211.23.2/24")
    addresses = ("10.211.23.10", "10.211.23.10")


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
