"""A standby of a test's own: made by `vcrecovery standby apply`, with a system of one busybox, removed at the end.

Its `Ground` is the lab, or, where a variable names LXD or Incus, one such server of the tests' own.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import yaml

from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.lxd import Instance, LxdServer
from vcrecovery_lab.run import run

from .loaded_program import LOADED

#: The end of an address. A new one each time: the machine remembers for a while to which container one belonged.
_NUMBERS = iter(range(64, 200))
#: The init of the smallest system that answers on a port; it ends at the signal with which LXD stops a container.
INIT = """\
#!/bin/busybox sh
trap 'exit 0' 3 15 30 37
/bin/busybox httpd -p 80 -h /www
while :; do /bin/busybox sleep 1 & wait $!; done
"""


class Ground(Protocol):
    """Where it is made."""

    @property
    def socket(self) -> Path: ...

    @property
    def network(self) -> Mapping[str, str]:
        """As the plan has it."""

    def lxc(self, *words: str, timeout: float = 120, check: bool = True) -> subprocess.CompletedProcess[str]:
        """What an operator calls."""


def printed_in(lxd: LxdServer, instance: str, command: Sequence[str]) -> str:
    """What a command prints there. `lxc exec` loses what it printed at times, on a machine that is busy."""
    status, printed = lxd.ask(instance, command, 120)
    assert status == 0, (command, printed)
    return printed


class OwnStandby:
    """Service and container `name` in pool `pool`, with a plan and a state folder of its own."""

    def __init__(self, ground: Ground, name: str, pool: str, folder: Path, **service: Any) -> None:
        self.ground, self.name, self.pool, self.folder = ground, name, pool, folder
        self.lxd = LxdServer("sec1", ground.socket, SystemClock())
        self.source = folder / "source"
        self.state = folder / "state"
        self.plan = folder / "plan.yml"
        self.data: dict[str, Any] = {
            "version": 1,
            "state_dir": str(self.state),
            "hypervisors": {"hv1": {"uri": f"qemu:///system?socket={folder}/none"}},
            "secondaries": {
                "sec1": {
                    "lxd": str(ground.socket),
                    "storage_pool": pool,
                    "network": dict(ground.network),
                    "receiver": {"address": "127.0.0.1"},
                }
            },
            "services": {
                name: {
                    "primary": {
                        "hypervisor": "hv1",
                        "uuid": "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0077",
                        "address": "127.0.0.9",
                    },
                    "standby": {"secondary": "sec1", "address": self.new_address()},
                    "ports": [80],
                    "timeouts": {"ports": "60s"},
                    "sync": {"exclude_profile": None},
                    **service,
                }
            },
        }
        self.write_plan()

    def new_address(self) -> str:
        return f"{self.ground.network['address'].rpartition('.')[0]}.{next(_NUMBERS)}"

    def write_plan(self, **service: Any) -> None:
        self.data["services"][self.name].update(service)
        self.plan.write_text(yaml.safe_dump(self.data))

    @property
    def rootfs(self) -> Path:
        return self.lxd.rootfs(self.pool, self.name)

    @property
    def instance(self) -> Instance:
        found = self.lxd.get(self.name)
        assert found is not None
        return found

    def vcrecovery(self, *words: str, timeout: float = 100) -> subprocess.CompletedProcess[str]:
        return LOADED.run([*words, "--plan", str(self.plan)], timeout)

    def apply(self) -> str:
        done = self.vcrecovery("standby", "apply")
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def move(self) -> str:
        """Gives it another address in the plan."""
        address = self.new_address()
        self.write_plan(standby={"secondary": "sec1", "address": address})
        return address

    def make_source(self) -> None:
        """The primary's tree."""
        for inside in ("bin", "sbin", "www", "etc", "var/lib/vcrecovery", "proc", "sys", "dev", "run", "tmp"):
            (self.source / inside).mkdir(parents=True, exist_ok=True)
        shutil.copy2("/bin/busybox", self.source / "bin/busybox")
        for applet in ("sh", "stat", "cat"):
            (self.source / "bin" / applet).symlink_to("busybox")
        (self.source / "sbin/init").write_text(INIT)
        (self.source / "sbin/init").chmod(0o755)
        (self.source / "www/index.html").write_text("one\n")
        (self.source / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\n")
        self.stamp()

    def stamp(self) -> None:
        """A heartbeat of now in the primary's tree."""
        text = json.dumps({"at": SystemClock().now()})
        (self.source / "var/lib/vcrecovery/heartbeat").write_text(text + "\n")

    def rsync(self, *options: str) -> list[str]:
        """The command that sends the primary's tree through the receiver."""
        receiver = [sys.executable, "-m", "vcrecovery", "receive", "--state-dir", str(self.state), "--local", self.name]
        kept = ["rsync", "-aHAXS", "--numeric-ids", "--modify-window=-1", "--delete", "--force"]
        # What every exclude list has: the standby's own.
        own = [f"--exclude={path}" for path in ("/dev/*", "/proc/*", "/sys/*", "/etc/hostname", "/etc/resolv.conf")]
        own += [f"--exclude={path}" for path in ("/etc/fstab", "/etc/network/", "/etc/machine-id", "/etc/systemd/")]
        return [*kept, *own, *options, "-e", shlex.join(receiver), f"{self.source}/", "standby:/"]

    def sync(self, *options: str) -> subprocess.CompletedProcess[str]:
        return run(self.rsync(*options), timeout=100, check=False)

    def inside(self, *command: str) -> str:
        return printed_in(self.lxd, self.name, command)

    def steps(self) -> Mapping[str, Mapping[str, Any]]:
        """The evidence of each finished step of the newest episode."""
        (*_, episode) = json.loads(self.vcrecovery("history", "--json").stdout)["episodes"]
        return {step["step"]: step["evidence"] for step in episode["steps"] if step["ok"]}

    def fail_over(self, *words: str) -> subprocess.CompletedProcess[str]:
        """On the operator's word, since there is no VM."""
        return self.vcrecovery("failover", self.name, "--primary-is-down", self.name, *words)

    def stop(self) -> None:
        if self.instance.status != "Stopped":  # it may be frozen
            self.lxd.stop(self.name, timeout=30)

    def stand_by_again(self) -> None:
        """As an operator does after a failover."""
        self.stop()
        done = self.vcrecovery("standby", "reset", self.name)
        assert done.returncode == 0, done.stderr

    def remove(self) -> None:
        found = self.lxd.get(self.name)
        if found is not None:
            self.stop()
            self.lxd.delete(self.name)


@contextmanager
def pool(ground: Ground, name: str, driver: str, **config: str) -> Iterator[str]:
    """A storage pool of driver `driver`, removed at the end."""
    words = [f"{key.replace('_', '.')}={value}" for key, value in config.items()]
    ground.lxc("storage", "create", name, driver, *words)
    try:
        yield name
    finally:
        ground.lxc("storage", "delete", name)


@contextmanager
def own_standby(ground: Ground, name: str, pool_name: str, folder: Path, **service: Any) -> Iterator[OwnStandby]:
    standby = OwnStandby(ground, name, pool_name, folder, **service)
    try:
        yield standby
    finally:
        standby.remove()
