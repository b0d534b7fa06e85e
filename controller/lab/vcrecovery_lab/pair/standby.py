"""The pair's standby: a container, pool and network of its own, made by `vcrecovery standby apply`, and removed."""

from __future__ import annotations

import fcntl
import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.transfer.freshness import RECONCILE, Freshness, freshness_of
from vcrecovery.transfer.heartbeat_copy import HEARTBEAT
from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.lxd_network import remove_pool_and_network
from vcrecovery_lab.run import LabError, run

#: Service, container and pool. There is one pair at a time, so what a killed one left is known by its name.
NAME = "vcrp"
BRIDGE, GATEWAY, ADDRESS = "vcrp0", "10.211.3.1/24", "10.211.3.10"
PROGRAM = CHECKOUT / ".venv/bin/vcrecovery"
SOCKET = Path("/var/lib/lxd/unix.socket")
_LOCK = Path("/run/lock/vcrecovery-pair.lock")


class Standby:
    """The container and the plan that it comes from."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self.plan = folder / "plan.yml"
        self.lxd = LxdServer("sec1", SOCKET, SystemClock())
        plan: dict[str, Any] = {
            "version": 1,
            "state_dir": str(self.state),
            "hypervisors": {"hv1": {"uri": f"qemu:///system?socket={folder}/none"}},
            "secondaries": {
                "sec1": {
                    "lxd": str(SOCKET),
                    "storage_pool": NAME,
                    "network": {"bridge": BRIDGE, "address": GATEWAY},
                    "receiver": {"address": "127.0.0.1"},
                }
            },
            "services": {
                NAME: {
                    "primary": {
                        "hypervisor": "hv1",
                        "uuid": "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0088",
                        "address": "127.0.0.1",
                    },
                    "standby": {"secondary": "sec1", "address": ADDRESS},
                    "ports": [80],
                    "sync": {"exclude_profile": None},
                }
            },
        }
        self.plan.write_text(yaml.safe_dump(plan))

    def vcrecovery(self, *words: str) -> subprocess.CompletedProcess[str]:
        return run([PROGRAM, *words, "--plan", self.plan], timeout=100, check=False)

    def apply(self) -> None:
        done = self.vcrecovery("standby", "apply")
        if done.returncode:
            raise LabError(done.stderr.strip())

    @property
    def rootfs(self) -> Path:
        return self.lxd.rootfs(NAME, NAME)

    def id_map(self) -> list[Mapping[str, Any]]:
        """How the owners are shifted on disk."""
        instance = self.lxd.get(NAME)
        if instance is None:
            raise LabError(f"container {NAME} has disappeared")
        entries: list[Mapping[str, Any]] = json.loads(instance.config["volatile.last_state.idmap"])
        return entries

    def freshness(self) -> Freshness:
        """What is known of its age, as the controller reads it."""
        return freshness_of(NAME, self._read(HEARTBEAT), self._read(RECONCILE))

    def status(self) -> Mapping[str, Any]:
        """The service as `vcrecovery status` shows it."""
        (service,) = json.loads(self.vcrecovery("status", "--json").stdout)["services"]
        found: Mapping[str, Any] = service
        return found

    def _read(self, inside: str) -> bytes | None:
        try:
            return (self.rootfs / inside[1:]).read_bytes()
        except FileNotFoundError:
            return None

    def remove(self) -> None:
        if self.lxd.get(NAME) is not None:
            self.lxd.delete(NAME)
        remove_pool_and_network(self.lxd, NAME, BRIDGE)


@contextmanager
def standby(folder: Path, pool_source: Path | None = None) -> Iterator[Standby]:
    """A new, empty standby; its files lie in `pool_source` if that is given."""
    if not SOCKET.exists():
        raise LabError(f"LXD does not run ({SOCKET} is not there): `make lab-up` starts it")
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = Standby(folder)
        try:
            found.remove()
            if pool_source:
                run(["lxc", "storage", "create", NAME, "dir", f"source={pool_source}"], timeout=60)
            found.apply()
            yield found
        finally:
            found.remove()
