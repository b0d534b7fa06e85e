"""A real LXD of one's own, beside the system's: another directory, its own pool and bridge; nothing is left of it.

Or an Incus, which is not the system's.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.errors import VCRecoveryError

from .container_programs import LXD, Programs, incus
from .lxd_network import remove_pool_and_network, remove_rules
from .pair.waiting import wait_until
from .run import LabError, run

#: Seconds; for a slow machine that is busy.
PATIENCE = 120.0
#: In its folder: the bridge, and the network in which it is.
_RECORD = "bridge"
#: How the names of Incus' folders begin.
_INCUS = "vcrlab-incus-"


class PrivateLxd:
    """`kill`, `send` and `start` may be called again and again; containers live on meanwhile, as under the system's.

    `network` is the bridge's name and the pool's. `vcrecovery standby apply` makes both. One run at a time has it.
    """

    #: Whether its bridge is a link of the network in which this process is.
    in_this_network = True

    def __init__(self, network: str, programs: Programs = LXD, folder: Path | None = None) -> None:
        """`folder`: that of an earlier one."""
        self.network = network
        self.software = programs
        prefix = _INCUS if programs.product == "Incus" else "vcrlab-"
        # The socket's path has to be short, and root of the containers has to get through.
        self.folder = folder or Path(tempfile.mkdtemp(prefix=prefix))
        self.folder.chmod(0o711)
        self.socket = self.folder / "unix.socket"
        self.server = LxdServer("sec1", self.socket, SystemClock())
        self._process: subprocess.Popen[bytes] | None = None
        self._claim: socket.socket | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def client(self) -> str:
        """What an operator calls."""
        return Path(self.software.client).name

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def command(self) -> list[str]:
        return [self.software.daemon, "--group", "root"]

    def environment(self) -> Mapping[str, str]:
        return self.clients_environment()

    def clients_environment(self) -> Mapping[str, str]:
        return {**self.software.environment, self.software.folder: str(self.folder)}

    def start(self) -> None:
        """Raises LabError when it does not answer, and when another run uses the bridge."""
        if self._claim is None and self.in_this_network:
            self._claim = self._take_the_bridge()
        self._begin()

    def _begin(self) -> None:
        with (self.folder / "lxd.log").open("ab") as log:
            # A session of its own, so that an interrupted test run can still end it in good order.
            self._process = subprocess.Popen(
                self.command(),
                env={**os.environ, **self.environment()},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_until(self.answers, "the private LXD", PATIENCE)

    def _take_the_bridge(self) -> socket.socket:
        """It is this one's until `close`. What a run has left of it that was killed is removed."""
        # A name without a file is one network's own, as the bridge is, and free when the process ends.
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0vcrecovery-lab/{self.network}")
        except OSError as error:
            claim.close()
            raise LabError(f"another run uses the bridge {self.network}: wait for its end") from error
        name = f"{self.network} {Path('/proc/self/ns/net').readlink()}"
        for record in self.folder.parent.glob(f"vcrlab-*/{_RECORD}"):
            if record.read_text() == name:
                software = incus() if record.parent.name.startswith(_INCUS) else LXD
                PrivateLxd(self.network, software, record.parent).remove_what_is_left()
        (self.folder / _RECORD).write_text(name)
        if Path("/sys/class/net", self.network).exists():
            run(["ip", "link", "delete", "dev", self.network], timeout=30)
        remove_rules(self.network)
        return claim

    def remove_what_is_left(self) -> None:
        """Of one whose run was killed, with it or without it."""
        self.lxd("shutdown", "--timeout", "30", check=False)
        # One that was killed as it began does not begin again; then nothing stands on it.
        with contextlib.suppress(LabError, VCRecoveryError):
            self._begin()
            self.close()
        self._remove_folder()

    def answers(self) -> bool:
        return self.lxd("waitready", "--timeout", "10", check=False).returncode == 0

    def lxd(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """The daemon's own program."""
        return run([self.software.daemon, *words], timeout=PATIENCE, env=self.clients_environment(), check=check)

    def lxc(self, *words: str) -> str:
        """As an operator calls it."""
        if self._process is not None and self._process.poll() is not None:
            log = (self.folder / "lxd.log").read_text(errors="replace").splitlines()
            raise LabError(f"LXD in {self.folder} has ended, {self._process.returncode}: {' | '.join(log[-4:])}")
        return run([self.software.client, *words], timeout=PATIENCE, env=self.clients_environment()).stdout

    def sql(self, query: str) -> None:
        """Changes what it knows behind its back."""
        run([*self.software.sql, "global", query], timeout=PATIENCE, env=self.clients_environment())

    def trust(self, certificate: Path, name: str) -> None:
        """As the role `secondary` has a controller on another machine trusted: for the standbys and nothing else."""
        words = ["--name", name, "--type", "client", "--restricted", "--projects", "default"]
        self.lxc(*self.software.trust, str(certificate), *words)

    def kill(self) -> None:
        """SIGKILL, as when it crashes; its containers live on."""
        self._end(signal.SIGKILL)

    def lose_power(self) -> None:
        """It ends with its containers, as on a machine without power: of what ends first nobody is told."""
        inits = [int(pid) for pid in self.lxc("list", "--format", "csv", "--columns", "p").split() if pid != "0"]
        cards = self.lxc("list", "--format", "csv", "--columns", "volatile.eth0.host_name").split()
        self.kill()
        for pid in inits:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in inits), "the end of its containers", 60)
        for card in cards:
            # liblxc gives the other end back to this machine, and nobody is left who would remove the pair.
            run(["ip", "link", "delete", "dev", card], timeout=30, check=False)

    def send(self, number: signal.Signals) -> None:
        """SIGTERM is sent when its package is upgraded; its containers live on then, too."""
        assert self._process is not None
        self._process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        self.send(number)
        assert self._process is not None
        try:
            self._process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=PATIENCE)

    def stop_all(self) -> None:
        """Stops every container at once."""
        names = [line.split(",") for line in self.lxc("list", "--format", "csv", "--columns", "ns").splitlines()]
        if running := [name for name, status in names if status != "STOPPED"]:
            self.lxc("stop", "--force", *running)
        # One that LXD has lost sight of would answer in the place of the next one with its address.
        wait_until(lambda: not self._monitors(), "the end of every container", 30)

    def _monitors(self) -> list[int]:
        """LXD's own process beside each container that runs."""
        mark = f"[lxc monitor] {self.folder}/containers ".encode()
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (process / "cmdline").read_bytes().startswith(mark):
                    found.append(int(process.name))
        return found

    def close(self) -> None:
        """Leaves nothing of it, whatever state it is in."""
        if self._process is None:
            if self._claim is not None:
                self._claim.close()
            shutil.rmtree(self.folder)
            return
        if not self.runs:
            self.start()
        self.stop_all()
        if names := self.lxc("list", "--format", "csv", "--columns", "n").split():
            self.lxc("delete", *names)
        remove_pool_and_network(self.server, self.network, self.network)
        self.lxd("shutdown", "--timeout", "30", check=False)
        self._end(signal.SIGTERM)
        if self._claim is not None:
            self._claim.close()
        self._remove_folder()
        if self.folder.exists():
            sys.stderr.write(f"{self.folder} is left\n")

    def _remove_folder(self) -> None:
        # Those of a daemon that was killed.
        mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for place in sorted((p for p in mounted if p.startswith(f"{self.folder}/")), reverse=True):
            run(["umount", "--lazy", place], timeout=30, check=False)
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.folder)
