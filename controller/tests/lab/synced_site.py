"""Two secondaries with real receivers, and a primary whose real sync finds the one at which its standby waits."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.transfer.freshness import Freshness, freshness_of
from vcrecovery.transfer.heartbeat_copy import HEARTBEAT
from vcrecovery.transfer.idmap import recorded
from vcrecovery_lab.container_programs import Programs
from vcrecovery_lab.pair import process
from vcrecovery_lab.pair.compare import differences
from vcrecovery_lab.pair.primary import Primary, alias_of
from vcrecovery_lab.pair.receiver import Receiver, known_host
from vcrecovery_lab.run import run

from .conftest import PROGRAM
from .small_site import BRIDGE, INIT, SERVE, ZONE
from .two_secondaries import SPARE_BRIDGE, TwoSecondaries
from .waiting import wait_for

NAME = "a"
SECONDARIES = ("sec1", "sec2")
#: What the primary has and its standby is to have.
FOLDERS = ("www", "srv")


class SyncedSite(TwoSecondaries):
    """One service. `tree`: its primary's files."""

    def __init__(self, folder: Path, names: Sequence[str] = (NAME,), programs: Programs | None = None) -> None:
        # A control socket of ssh has a short path, and nobody else may write where its keys are.
        self.place = Path(tempfile.mkdtemp(prefix="vcrw-", dir="/run"))
        self.tree = self.place / "tree"
        super().__init__(folder, names, programs)
        self.states = {"sec1": self.state, "sec2": folder / "state2"}
        key = self.place / "primary/sync_key"
        for name in ("primary", *SECONDARIES):
            (self.place / name).mkdir()
        self.receivers = {name: Receiver(self.place / name, state, key, NAME) for name, state in self.states.items()}
        ports = {name: receiver.port for name, receiver in self.receivers.items()}
        self._fill_tree()
        self.primary_side = Primary(self.place / "primary", self.tree, ports["sec1"], 0.5, 1.0, ports)
        lines = [known_host(receiver, alias_of(name, n)) for n, (name, receiver) in enumerate(self.receivers.items())]
        (self.place / "primary/known_hosts").write_text("".join(lines))

    def _fill_tree(self) -> None:
        for inside in ("bin", "sbin", "www", "srv", "var/lib/vcrecovery", "etc"):
            (self.tree / inside).mkdir(parents=True)
        shutil.copy2("/bin/busybox", self.tree / "bin/busybox")
        (self.tree / "bin/sh").symlink_to("busybox")
        (self.tree / "sbin/init").write_text(INIT.format(serve=SERVE))
        (self.tree / "sbin/init").chmod(0o755)
        (self.tree / "www/index.html").write_text("written by the primary\n")

    def start(self) -> None:
        super().start()
        # As the role `secondary` does it there: with the socket of that machine, and a state of its own.
        there = self.data | {"state_dir": str(self.states["sec2"])}
        there["secondaries"] = {**self.data["secondaries"]}
        there["secondaries"]["sec2"] = {**self.data["secondaries"]["sec2"], "lxd": str(self.spare_lxd.socket)}
        plan = self.folder / "plan2.yml"
        plan.write_text(yaml.safe_dump(there))
        for receiver in self.receivers.values():
            receiver.start()
        run([PROGRAM, "standby", "admit", "--on", "sec2", "--plan", plan], timeout=60)
        self.primary_side.start()
        self.wait_whole("sec1")

    def close(self) -> None:
        try:
            self.primary_side.kill()
            for receiver in self.receivers.values():
                receiver.stop()
            wait_for(lambda: not process.kill(process.having(self.place)), "the end of the sessions")
        finally:
            shutil.rmtree(self.place, ignore_errors=True)
            super().close()

    # -- what there is -----------------------------------------------------------------------------------------

    def server(self, secondary: str) -> LxdServer:
        return self.lxd.server if secondary == "sec1" else self.spare_lxd.server

    def rootfs_on(self, secondary: str) -> Path:
        return self.server(secondary).rootfs(BRIDGE if secondary == "sec1" else SPARE_BRIDGE, NAME)

    def role_on(self, secondary: str) -> str:
        found = self.server(secondary).get(NAME)
        return "" if found is None else found.config["user.vcrecovery.role"]

    def take_files(self) -> list[str]:
        """The secondaries at which the standby takes its primary's files."""
        return [name for name in SECONDARIES if self.role_on(name) == "standby"]

    def freshness_on(self, secondary: str) -> Freshness:
        file = self.rootfs_on(secondary) / HEARTBEAT[1:]
        return freshness_of(NAME, file.read_bytes() if file.exists() else None, None)

    def wait_whole(self, secondary: str) -> None:
        """Until its primary vouches for the one there."""

        def whole() -> bool:
            fresh = self.freshness_on(secondary)
            return fresh.whole and fresh.receiver == secondary and not self.primary_side.marked

        wait_for(whole, f"a whole standby on {secondary}")

    def write(self, inside: str, text: str) -> None:
        path = self.tree / inside
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def arrives(self, inside: str, secondary: str) -> None:
        text = (self.tree / inside).read_text()

        def is_there() -> bool:
            path = self.rootfs_on(secondary) / inside
            return path.exists() and path.read_text() == text

        wait_for(is_there, f"{inside} on {secondary}")

    def differences_on(self, secondary: str) -> list[str]:
        found = self.server(secondary).get(NAME)
        assert found is not None
        id_map = recorded(NAME, found.config)
        return [
            line for folder in FOLDERS for line in differences(self.tree, self.rootfs_on(secondary), folder, id_map)
        ]

    def returned_by_hand(self, serves_on: str) -> None:
        """What its standby there has written is given up; its VM serves, and its standby is at home."""
        self.server(serves_on).stop(NAME, 60)
        self.ns1.change(f"update delete {NAME}.{ZONE} A", f"update add {NAME}.{ZONE} 5 A {self.primary(NAME)}")
        done = self.vcrecovery("standby", "reset", NAME)
        assert done.returncode == 0, (done.stdout, done.stderr)
        self.primary_side.start()
        self.wait_whole("sec1")

    def asked(self, secondary: str) -> str:
        """What the receiver there says to the VM."""
        config = self.primary_side.ssh_config
        return run(["ssh", "-F", config, f"receiver-{secondary}", "who-serves"], timeout=60).stdout.strip()


@contextmanager
def synced_site(folder: Path, programs: Programs | None = None) -> Iterator[SyncedSite]:
    os.environ.pop("VCRECOVERY_PLAN", None)
    site = SyncedSite(folder, programs=programs)
    try:
        site.start()
        yield site
    finally:
        site.close()
