"""Two secondaries that share a network, so that a standby keeps its address on either; both LXDs have a CRIU."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

from vcrecovery_lab.checkpointing_lxd import CheckpointingLxd, join

from .small_site import SERVE, SmallSite
from .two_secondaries import TwoSecondaries

#: One name on both sides, each in a namespace; the controller has a card there too.
BRIDGE = "vcrlab-mem"
HERE, THERE, CONTROLLER = "10.211.22.1/24", "10.211.22.2/24", "10.211.22.254/24"
_CARD = "vcrlab-memctl"
COUNTER_PORT = 7070
#: Counts the lines of each client, in the memory of a process per connection.
COUNTER = """\
#!/bin/busybox sh
n=0
while read line; do n=$((n+1)); echo $n; done
"""
SERVES = f"{SERVE}; /bin/busybox nc -ll -p {COUNTER_PORT} -e /bin/count </dev/null >/dev/null 2>&1 &"


class SharedNetwork(TwoSecondaries):
    """`spare_lxd` is reached at its own address, over the cable."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        super().__init__(folder, names)
        self.lxd.close()
        self.spare_lxd.close()
        self.lxd: CheckpointingLxd = CheckpointingLxd(BRIDGE, 1)
        self.spare_lxd: CheckpointingLxd = CheckpointingLxd(BRIDGE, 2)
        self.write_plan()

    def write_plan(self, **services: dict[str, object]) -> None:
        super().write_plan()
        for name, where in (("sec1", HERE), ("sec2", THERE)):
            entry = self.data["secondaries"][name]
            entry["storage_pool"] = BRIDGE
            entry["network"] = {"bridge": BRIDGE, "address": where}
        self.data["secondaries"]["sec2"]["lxd"]["url"] = f"https://{THERE.partition('/')[0]}:{self.port}"
        for name, changes in services.items():
            self.data["services"][name].update(changes)
        self.save_plan()

    def address(self, name: str) -> str:
        return f"10.211.22.{10 + self.names.index(name)}"

    def spare_address(self, name: str) -> str:
        return self.address(name)

    def rootfs(self, name: str) -> Path:
        return self.lxd.server.rootfs(BRIDGE, name)

    def fill(self, name: str, serve: str = SERVES) -> None:
        super().fill(name, serve)
        top = self.rootfs(name)
        (top / "bin/count").write_text(COUNTER)
        (top / "bin/count").chmod(0o755)

    def start(self) -> None:
        SmallSite.start(self)
        self.spare_lxd.start()
        self.spare_lxd.server.create_pool(BRIDGE)
        self.spare_lxd.server.create_network(BRIDGE, THERE)
        join(self.lxd, self.spare_lxd, _CARD, CONTROLLER)
        self.lxd.lxc("config", "set", "core.https_address", f"{HERE.partition('/')[0]}:{self.port}")
        self.spare_lxd.lxc("config", "set", "core.https_address", f"{THERE.partition('/')[0]}:{self.port}")
        words = ["--name", "vcrt-spare", "--type", "client", "--restricted", "--projects", "default"]
        self.spare_lxd.lxc("config", "trust", "add", str(self.certificate), *words)


class Counting:
    """A client with one connection, which counts with the service."""

    def __init__(self, address: str) -> None:
        self._connection = socket.create_connection((address, COUNTER_PORT), timeout=60)
        self._file = self._connection.makefile("rw")
        self.count = 0

    def ask(self) -> None:
        self._file.write("x\n")
        self._file.flush()
        said = self._file.readline()
        self.count += 1
        assert said.strip() == str(self.count), (said, self.count)

    def close(self) -> None:
        self._file.close()
        self._connection.close()
