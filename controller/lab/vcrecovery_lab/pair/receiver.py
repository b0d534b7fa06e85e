"""The pair's SSH server: the role's configuration, on loopback, with one key that may send to one standby."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.ports import free_port
from vcrecovery_lab.run import LabError, run
from vcrecovery_lab.stand_still import stand_still

from . import process
from .render import render
from .standby import NAME, PROGRAM
from .waiting import wait_until


class Receiver:
    """An sshd that can be stopped, started and cut. `key`: made where it is not there yet."""

    def __init__(self, folder: Path, state: Path, key: Path, name: str = NAME) -> None:
        self.folder, self._state = folder, state
        self.port = free_port()
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self.host_key = folder / "host_key"
        self.keys = folder / "authorized_keys"
        self.keys.write_text("")
        self.keys.chmod(0o600)
        _make_key(self.host_key, name)
        self.admit(key, name)
        configuration = render(
            CHECKOUT / "roles/secondary/templates/sshd_config.j2",
            secondary_receiver={"address": "127.0.0.1", "port": self.port},
            secondary_receiver_dir=str(folder),
        )
        (folder / "sshd_config").write_text(configuration)
        self._server: subprocess.Popen[bytes] | None = None

    def admit(self, key: Path, name: str, address: str = "127.0.0.1") -> None:
        """A further key, of the service `name`, for a primary at that address."""
        _make_key(key, name)
        command = f"{PROGRAM} receive {name} --state-dir {self._state}"
        with self.keys.open("a") as keys:
            keys.write(f'restrict,from="{address}",command="{command}" {key.with_suffix(".pub").read_text()}')

    def start(self) -> None:
        log = self.folder / "sshd.log"
        self._server = process.start(["/usr/sbin/sshd", "-D", "-e", "-f", self.folder / "sshd_config"], log)
        wait_until(self._answers, f"the receiver on port {self.port} (see {log})", 60)

    def stop(self) -> None:
        """The whole secondary is away: no server, no sessions."""
        if self._server is not None:
            # First the server, which then takes nobody in; its children are known before they lose their parent.
            stand_still(self._server.pid)
            sessions = self.sessions()
            self._server.kill()
            process.kill(sessions)
            self._server.wait()
            self._server = None

    def cut(self) -> None:
        """Every connection ends; new ones are taken. What ran behind them sees that by itself."""
        process.kill([pid for pid in self.sessions() if process.name(pid) == "sshd"])

    def sessions(self) -> list[int]:
        return process.below(self._server.pid) if self._server is not None else []

    def _answers(self) -> bool:
        if self._server is None or self._server.poll() is not None:
            raise LabError(f"the receiver has ended: {(self.folder / 'sshd.log').read_text()[-300:]}")
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


def _make_key(file: Path, name: str) -> None:
    if not file.exists():
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"vcrecovery:{name}", "-f", file], timeout=30)


def known_host(receiver: Receiver, alias: str = "vcrecovery-receiver") -> str:
    """The line for the primary's known_hosts."""
    kind, key, *_ = receiver.host_key.with_suffix(".pub").read_text().split()
    return f"{alias} {kind} {key}{os.linesep}"
