"""A provisioner's command whose machines are LXDs of their own on this one: `lxd_cloud.py FOLDER create|...`.

In FOLDER there is a file for each, before anything of it exists, and until nothing of it does any more. What is written
to FOLDER/fault makes it misbehave: `hang`, `lie`, `silent` (the machine never answers), `keep` (it destroys nothing).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.lxd import LxdServer
from vcrecovery_lab.lxd_network import remove_pool_and_network
from vcrecovery_lab.ports import free_port

PATIENCE = 120.0


class Cloud:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def fault(self) -> str:
        file = self._folder / "fault"
        return file.read_text() if file.exists() else ""

    def _record(self, lease: str) -> Path:
        return self._folder / f"{lease}.json"

    def describe(self, lease: str) -> list[dict[str, Any]]:
        if self.fault == "lie" or not self._record(lease).exists():
            return []
        found = json.loads(self._record(lease).read_text())
        return [{"id": f"lxd-{found['home']}", "address": "127.0.0.1", "port": found["port"]}]

    def create(self, order: dict[str, Any]) -> list[dict[str, Any]]:
        if self.fault == "lie":
            return [{"id": "lxd-nowhere", "address": "127.0.0.1"}]
        if not self._record(order["lease"]).exists():
            self._start(order)
        if self.fault == "hang":
            time.sleep(3600)
        return self.describe(order["lease"])

    def _start(self, order: dict[str, Any]) -> None:
        home = Path(tempfile.mkdtemp(prefix="vcrlab-"))
        home.chmod(0o711)
        told = order["lxd"]
        made = {
            "home": str(home),
            "port": free_port(),
            "pid": 0,
            "bridge": told["bridge"],
            "pool": told["storage_pool"],
        }
        self._record(order["lease"]).write_text(json.dumps(made))
        if self.fault == "silent":
            return
        (home / "server.crt").write_text(told["server_certificate"])
        (home / "server.key").write_text(told["server_key"])
        (home / "server.key").chmod(0o600)
        (home / "trusted.crt").write_text(told["trusted_certificate"])
        with (home / "lxd.log").open("ab") as log:
            process = subprocess.Popen(
                ["lxd", "--group", "root"],
                env={**os.environ, "LXD_DIR": str(home)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._record(order["lease"]).write_text(json.dumps({**made, "pid": process.pid}))
        self._run(home, "lxd", "waitready", "--timeout", "100")
        server = LxdServer("cloud", home / "unix.socket", SystemClock())
        server.create_pool(told["storage_pool"])
        server.create_network(told["bridge"], told["network"])
        words = ["--name", "controller", "--type", "client", "--restricted", "--projects", "default"]
        self._run(home, "lxc", "config", "trust", "add", str(home / "trusted.crt"), *words)
        self._run(home, "lxc", "config", "set", "core.https_address", f"127.0.0.1:{made['port']}")

    def destroy(self, lease: str) -> list[dict[str, Any]]:
        if self._record(lease).exists() and self.fault != "keep":
            made = json.loads(self._record(lease).read_text())
            self._end(made)
            self._record(lease).unlink()
        return self.describe(lease)

    def _end(self, made: dict[str, Any]) -> None:
        home = Path(made["home"])
        if made["pid"] and Path(f"/proc/{made['pid']}/comm").exists():
            if names := self._run(home, "lxc", "list", "--format", "csv", "--columns", "n").split():
                self._run(home, "lxc", "delete", "--force", *names)
            server = LxdServer("cloud", home / "unix.socket", SystemClock())
            remove_pool_and_network(server, made["pool"], made["bridge"])
            self._run(home, "lxd", "shutdown", "--timeout", "30")
            with suppress(ProcessLookupError):
                os.kill(made["pid"], signal.SIGTERM)
        mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for place in sorted((p for p in mounted if p.startswith(f"{home}/")), reverse=True):
            subprocess.run(["umount", "--lazy", place], check=False, timeout=30)
        shutil.rmtree(home, ignore_errors=True)

    def _run(self, home: Path, *argv: str) -> str:
        env = {**os.environ, "LXD_DIR": str(home)}
        return subprocess.run(argv, env=env, check=True, capture_output=True, text=True, timeout=PATIENCE).stdout


def main() -> None:
    folder, verb = Path(sys.argv[1]), sys.argv[2]
    order, cloud = json.load(sys.stdin), Cloud(folder)
    with (folder / "calls").open("a") as calls:
        calls.write(f"{verb} {order['name']}\n")
    found = cloud.create(order) if verb == "create" else getattr(cloud, verb)(order["lease"])
    sys.stdout.write(json.dumps({"machines": found}) + "\n")


if __name__ == "__main__":
    main()
