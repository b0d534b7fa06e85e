"""A standby that waits with a real Debian in it: nginx, systemd, its own container, pool and network; no VM."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vcrecovery.drivers.clock import SystemClock
from vcrecovery_lab.lxd_network import remove_pool_and_network
from vcrecovery_lab.run import run

from .conftest import Lab
from .own_standby import OwnStandby

NAME = "vcrmodes"
ADDRESS, GATEWAY = "10.211.5.10", "10.211.5.1/24"


class WaitingStandby(OwnStandby):
    """Service, container, pool and bridge `vcrmodes`."""

    def __init__(self, lab: Lab, folder: Path, **service: Any) -> None:
        super().__init__(lab, NAME, NAME, folder, **service)
        self.lab = lab
        self.data["secondaries"]["sec1"]["network"] = {"bridge": NAME, "address": GATEWAY}
        self.data["services"][NAME]["standby"]["address"] = ADDRESS
        self.write_plan()

    def make(self) -> None:
        """The container with the image's tree, as after a first sync."""
        self.apply()
        seeded = self.vcrecovery("standby", "seed", self.name, "--from", str(self.lab.image.rootfs), timeout=300)
        assert seeded.returncode == 0, seeded.stderr
        self.stamp()
        self.send({})

    def send(self, files: dict[str, str]) -> None:
        """These files arrive from the primary, with a heartbeat of now, the way every file does."""
        self.stamp()
        for inside, text in files.items():
            file = self.source / inside.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        receiver = [sys.executable, "-m", "vcrecovery", "receive", "--state-dir", str(self.state), "--local", self.name]
        # Of a folder that is there already nothing changes.
        kept = ["rsync", "-rlptgoD", "--numeric-ids", "--omit-dir-times"]
        run([*kept, "-e", shlex.join(receiver), f"{self.source}/", "standby:/"], timeout=100)
        shutil.rmtree(self.source)

    def stamp(self) -> None:
        folder = self.source / "var/lib/vcrecovery"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "heartbeat").write_text(json.dumps({"at": SystemClock().now()}))

    def set_mode(self, mode: str) -> str:
        done = self.vcrecovery("standby", "set", self.name, mode)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def unit(self, name: str) -> str:
        """Its state, in systemd's word."""
        words = ["lxc", "exec", self.name, "--", "systemctl", "is-active", name]
        # It always says a word; on a busy machine `lxc exec` was seen to bring none.
        answers = (run(words, timeout=60, check=False).stdout.strip() for _ in range(5))
        return next(filter(None, answers), "")

    def page(self, port: int = 80) -> str | None:
        """What its web server answers; None when it does not."""
        words = ["curl", "--silent", "--noproxy", "*", "--max-time", "30", f"http://{ADDRESS}:{port}/"]
        done = run(words, timeout=60, check=False)
        return done.stdout if done.returncode == 0 else None

    def init(self) -> str:
        """The process that the container was booted as, and when."""
        state = json.loads(run(["lxc", "query", f"/1.0/instances/{self.name}/state"], timeout=20).stdout)
        pid = state["pid"]
        return f"{pid} {Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[19]}"

    def stand_by_again(self) -> None:
        """As an operator does after a failover, back to how the plan has it."""
        if self.instance.status != "Stopped":
            self.lxd.stop(self.name, timeout=30)
        done = self.vcrecovery("standby", "reset", self.name)
        assert done.returncode == 0, done.stderr
        self.send({})

    def remove(self) -> None:
        found = self.lxd.get(self.name)
        if found is not None:
            if found.status != "Stopped":
                self.lxd.stop(self.name, timeout=30)
            self.lxd.delete(self.name)
        remove_pool_and_network(self.lxd, NAME, NAME)


@contextmanager
def waiting_standby(lab: Lab, folder: Path, **service: Any) -> Iterator[WaitingStandby]:
    os.environ.pop("VCRECOVERY_PLAN", None)
    standby = WaitingStandby(lab, folder, **service)
    standby.remove()
    try:
        standby.make()
        yield standby
    finally:
        standby.remove()
