"""Two secondaries with one core each, on this machine, and four services that their standbys serve on the first one."""

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
from vcrecovery_lab.command_line import vcrecovery
from vcrecovery_lab.ports import free_port
from vcrecovery_lab.private_lxd import PrivateLxd
from vcrecovery_lab.secondary_vm.certificate import make_certificate

NAMES = ("web", "shop", "mail", "wiki")
PORT = 7083
BRIDGES, SUBNETS = ("vcrlab-relief1", "vcrlab-relief2"), ("10.211.46", "10.211.47")
PATIENCE = 600.0
#: Per cent of the two cores that LXD counts: each secondary has one of them, so half is all that it has. Of four that
#: use as much, two have to leave for the target.
BALANCE = {"cpu_high": 40, "target": 36, "memory_high": 100}
_INIT = f"""\
#!/bin/busybox sh
trap 'exit 0' 3 15 30 37
/bin/busybox httpd -p {PORT} -h /www
while :; do /bin/busybox sleep 1 & wait $!; done
"""
#: An answer takes some hundredths of a second of a core.
_WORK = """\
#!/bin/busybox sh
i=0
while [ $i -lt 10000 ]; do i=$((i+1)); done
printf 'Content-Type: text/plain\\r\\n\\r\\ndone\\n'
"""


class Sides:
    """All of them are served on sec1 at the beginning."""

    def __init__(self, folder: Path, lxds: list[PrivateLxd]) -> None:
        self.folder, self.lxds = folder, lxds
        self.ports = [free_port() for _ in lxds]
        self.certificate, self.key = make_certificate(folder, "vcrt-relief")
        self.plan = folder / "plan.yml"

    @staticmethod
    def addresses(name: str) -> tuple[str, ...]:
        """Of a service: where it is before a move, and after it."""
        return tuple(f"{subnet}.{10 + NAMES.index(name)}" for subnet in SUBNETS)

    def write_plan(self, *, over_https: bool) -> None:
        """Over HTTPS as from a third machine: the load of a secondary is what its containers use, not what all do."""
        fence = {"command": ["echo", "nobody is there"]}
        plan = {
            "version": 1,
            "state_dir": str(self.folder / "state"),
            "hypervisors": {"hv1": {"uri": f"qemu:///session?socket={self.folder}/none", "fence": fence}},
            "secondaries": {f"sec{n + 1}": self._secondary(n, over_https) for n in range(len(self.lxds))},
            "services": {name: self._service(name) for name in NAMES},
            "balance": BALANCE,
        }
        self.plan.write_text(yaml.safe_dump(plan))

    def _secondary(self, number: int, over_https: bool) -> dict[str, Any]:
        lxd = self.lxds[number]
        url = {
            "url": f"https://127.0.0.1:{self.ports[number]}",
            "certificate": str(self.certificate),
            "key": str(self.key),
            "server_certificate": str(lxd.folder / "server.crt"),
        }
        return {
            "lxd": url if over_https else str(lxd.socket),
            "storage_pool": lxd.network,
            "network": {"bridge": lxd.network, "address": f"{SUBNETS[number]}.1/24"},
            "receiver": {"address": "127.0.0.1", "port": 7022 + number},
        }

    def _service(self, name: str) -> dict[str, Any]:
        old, new = self.addresses(name)
        number = NAMES.index(name)
        uuid = f"6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e70{number:02d}"
        return {
            "primary": {"hypervisor": "hv1", "uuid": uuid, "address": f"127.0.46.{number + 1}"},
            "standby": {"secondary": "sec1", "address": old, "spare": {"secondary": "sec2", "address": new}},
            "ports": [PORT],
            # Of a busy core.
            "timeouts": {"stable_for": "1ms", "start": "2m", "ports": "1m", "confirm": "5s"},
            "max_staleness": "1d",
        }

    def vcrecovery(self, *words: str, may_end: tuple[int, ...] = (0,)) -> str:
        """What it says. Raises LabError with what it says."""
        return vcrecovery(self.plan, *words, may_end=may_end)

    def serve(self, megabytes: int) -> None:
        """Each by its standby, which has its core; and what it is copied to has its own."""
        self.write_plan(over_https=False)
        plan = load_plan(self.plan)
        for name in NAMES:
            apply(plan, name, self.lxds[0].server, SystemClock())
            self._fill(name, megabytes)
            self.vcrecovery("failover", name)
            self._give_a_core(name, 0)
        self.write_plan(over_https=True)
        for name in NAMES:
            self.vcrecovery("move", name, "--to", "sec2")
            self._give_a_core(name, 1)
            self.vcrecovery("move", name, "--to", "sec1")

    def _give_a_core(self, name: str, number: int) -> None:
        """That of its secondary, before all else that this machine does."""
        keys = (f"limits.cpu={number}-{number}", "limits.cpu.allowance=1000%")
        self.lxds[number].lxc("config", "set", name, *keys)

    def serving_on(self, number: int) -> list[str]:
        return self.lxds[number].lxc("list", "--format", "csv", "--columns", "n", "status=running").split()

    def _fill(self, name: str, megabytes: int) -> None:
        """A system of one busybox, and what it serves."""
        first = self.lxds[0]
        top = first.server.rootfs(first.network, name)
        programs = {"sbin/init": _INIT, "www/cgi-bin/work": _WORK}
        plant(top, programs, ("www/cgi-bin", "etc", "proc", "sys", "dev", "run", "tmp"))
        stamp(top, time.time())
        for number in range(megabytes):
            (top / f"www/{number}").write_bytes(os.urandom(1 << 20))
        give_away(top)


@contextmanager
def sides(folder: Path, megabytes: int) -> Iterator[Sides]:
    with ExitStack() as ends:
        lxds = [PrivateLxd(bridge) for bridge in BRIDGES]
        for lxd in lxds:
            ends.callback(lxd.close)
        found = Sides(folder, lxds)
        for number, (lxd, port) in enumerate(zip(lxds, found.ports, strict=True)):
            lxd.start()
            lxd.lxc("config", "set", "core.https_address", f"127.0.0.1:{port}")
            words = ["--name", "vcrt-relief", "--type", "client", "--restricted", "--projects", "default"]
            lxd.lxc("config", "trust", "add", str(found.certificate), *words)
            if number:
                lxd.server.create_pool(lxd.network)
                lxd.server.create_network(lxd.network, f"{SUBNETS[number]}.1/24")
        found.serve(megabytes)
        yield found
