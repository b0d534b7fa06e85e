"""A private LXD that moves memory: below /var/lib/lxd as any other, so that what CRIU has written of mounts fits.

In a network namespace of its own too: liblxc finds a container by its path, once in each.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from .criu import criu_folder
from .layout import CHECKOUT
from .private_lxd import PrivateLxd
from .run import run

_WRAPPER = CHECKOUT / "roles/secondary/files/criu.py"
#: /sys shows the network in which it was mounted.
_START = """\
mkdir -p "$1/cgroup" && mount --rbind /sys/fs/cgroup "$1/cgroup" && mount -t sysfs sysfs /sys &&
mount --rbind "$1/cgroup" /sys/fs/cgroup && umount --lazy "$1/cgroup" &&
mount --bind "$1" /var/lib/lxd && exec lxd --group root
"""


class CheckpointingLxd(PrivateLxd):
    """`number`: of those that have a bridge of that name."""

    in_this_network = False

    def __init__(self, network: str, number: int) -> None:
        super().__init__(network)
        self.namespace = f"{network}-{number}"
        self.programs = self.folder / "programs"
        self.programs.mkdir()
        wrapper = self.programs / "criu"
        wrapper.write_text(f"#!/usr/bin/python3 -I\n{_WRAPPER.read_text()}")
        wrapper.chmod(0o755)

    def command(self) -> list[str]:
        within = ["nsenter", f"--net=/run/netns/{self.namespace}", "unshare", "--mount", "--propagation", "private"]
        return [*within, "bash", "-c", _START, "lxd", str(self.folder)]

    def environment(self) -> Mapping[str, str]:
        path = os.pathsep.join([str(self.programs), str(criu_folder()), os.environ["PATH"]])
        return {"LXD_DIR": "/var/lib/lxd", "PATH": path}

    def start(self) -> None:
        if not Path(f"/run/netns/{self.namespace}").exists():
            run(["ip", "netns", "add", self.namespace], timeout=30)
            self.ip("link", "set", "lo", "up")
        super().start()
        self.note_checkpoints()

    def ip(self, *words: str) -> None:
        run(["ip", "-n", self.namespace, *words], timeout=30)

    def plug_in(self, card: str) -> None:
        """A network card of its namespace, which is a port of its bridge from then on."""
        self.ip("link", "set", card, "master", self.network, "up")

    def note_checkpoints(self) -> None:
        """As the role `secondary` does."""
        path = {**os.environ, **self.environment()}
        said = subprocess.run(["criu", "check"], env=path, capture_output=True, text=True, timeout=60, check=False)
        version = run(["criu", "--version"], timeout=30, env=path).stdout.split()[-1]
        word = f"ok {version} {os.uname().release}" if said.returncode == 0 else f"failed {said.stderr.strip()}"
        self.lxc("project", "set", "default", "user.vcrecovery.criu", word)

    def close(self) -> None:
        super().close()
        run(["ip", "netns", "delete", self.namespace], timeout=30, check=False)


def join(first: CheckpointingLxd, second: CheckpointingLxd, card: str, address: str) -> None:
    """Makes one network of their bridges and of a new card of this machine. It goes with their namespaces.

    `card` does not begin with the bridge's name and a dash: LXD removes what does.
    """
    uplink, cross = "uplink", "cross"
    run(["ip", "link", "add", card, "type", "veth", "peer", "name", uplink, "netns", first.namespace], timeout=30)
    run(["ip", "address", "add", address, "dev", card], timeout=30)
    run(["ip", "link", "set", card, "up"], timeout=30)
    first.ip("link", "add", cross, "type", "veth", "peer", "name", cross, "netns", second.namespace)
    for lxd, port in ((first, uplink), (first, cross), (second, cross)):
        lxd.plug_in(port)
