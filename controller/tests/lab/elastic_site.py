"""A site whose secondary has too much to do, and that has another one made: a real LXD each, a BIND, real load.

The controller reaches the first LXD as one on another machine: its load is then that of its containers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from vcrecovery_lab.ports import free_port
from vcrecovery_lab.secondary_vm.certificate import make_certificate

from .small_site import SmallSite

WEB, DB = "web", "db"
NETWORK = "10.211.14.1/24"
#: Of web: the second service of the plan's file.
THERE = "10.211.14.3"
#: Per cent of two cores. At times all of db is on one of them, which is half, and others have their share of that one.
BALANCE = {"do": "move", "cpu_high": 35, "target": 30, "high_for": "2s", "memory_high": 100, "pinned": [DB]}
#: What each may use: db has too much to do by itself, and stays. It comes before other work of this machine.
ALLOWED = {WEB: "5ms/100ms", DB: "125ms/100ms"}
FIRST = "200000"
BURN = "(while :; do :; done) >/dev/null 2>&1 </dev/null & echo $! >> /burns"
CALM = "kill $(cat /burns); rm /burns"


class ElasticSite(SmallSite):
    """`host`: where its LXD listens, so that its containers can be copied."""

    host = "127.0.0.1"

    def __init__(self, folder: Path) -> None:
        self.certificate, self.key = make_certificate(folder, "vcrt-controller")
        self.port = free_port()
        super().__init__(folder, (WEB, DB))

    def elastic_section(self) -> dict[str, Any]:
        """What differs: its template, and its provisioner."""
        raise NotImplementedError

    def write_plan(self, **services: dict[str, Any]) -> None:
        super().write_plan(**services)
        elastic = {
            "certificate": str(self.certificate),
            "key": str(self.key),
            "release_after": "30s",
            **self.elastic_section(),
        }
        self.data["balance"] = {**BALANCE, "elastic": elastic}
        self.data["secondaries"]["sec1"]["lxd"] = {
            "url": f"https://{self.host}:{self.port}",
            "certificate": str(self.certificate),
            "key": str(self.key),
            "server_certificate": str(self.lxd.folder / "server.crt"),
        }
        self.save_plan()

    def start(self) -> None:
        super().start()
        words = ["--name", "vcrt-controller", "--type", "client", "--restricted", "--projects", "default"]
        self.lxd.lxc("config", "trust", "add", str(self.certificate), *words)
        self.lxd.lxc("config", "set", "core.https_address", f"{self.host}:{self.port}")

    def serve(self) -> None:
        """Both services are served on the one secondary."""
        self.write_plan()
        for name in self.names:
            done = self.vcrecovery("failover", name)
            assert done.returncode == 0, (done.stdout, done.stderr)

    def burn(self) -> None:
        """They use what they may."""
        for name in self.names:
            self.lxd.lxc("config", "set", name, "limits.cpu.allowance", ALLOWED[name])
        self.shares(DB).write_text(FIRST)
        for name in (WEB, DB, DB):
            self.run_in(name, BURN)

    def shares(self, name: str) -> Path:
        """Asked of its init: a container of that name in another LXD may have the group that the name suggests."""
        init = json.loads(self.lxd.lxc("query", f"/1.0/instances/{name}/state"))["pid"]
        groups = (line.split(":") for line in Path(f"/proc/{init}/cgroup").read_text().splitlines())
        (group,) = (path for _, controllers, path in groups if "cpu" in controllers.split(","))
        return Path(f"/sys/fs/cgroup/cpu{group}/cpu.shares")

    def calm(self, name: str = DB) -> None:
        self.run_in(name, CALM)

    def run_in(self, name: str, script: str) -> None:
        self.lxd.lxc("exec", name, "--", "/bin/busybox", "sh", "-c", script)

    def where(self, name: str) -> str:
        found = json.loads(self.vcrecovery("status", name, "--json").stdout)["services"][0]
        return str(found["secondary"])

    def spare(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.vcrecovery("status", name, "--json").stdout)["services"][0]["spare"]
        return found
