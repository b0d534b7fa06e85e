"""A Zabbix agent of the stack."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vcrecovery_lab.run import run

from .cache import Installation
from .process import Child


@dataclass(frozen=True)
class Psk:
    """A pre-shared key: the agent accepts no connection without it."""

    identity: str
    file: Path


class Agent:
    """zabbix_agentd on 127.0.0.1. It runs as `nobody`, and so do the commands that it is told."""

    def __init__(self, made: Installation, name: str, port: int, folder: Path, psk: Psk | None) -> None:
        self.name, self.port, self.folder, self.psk = name, port, folder, psk
        self.log = folder / "agent.log"
        self._made = made
        self.child: Child | None = None

    def start(self) -> None:
        """Returns when it answers. Raises LabError with its last words if it does not come up."""
        program = self._made.program("zabbix_agentd")
        command: list[str | Path] = [program, "--foreground", "--config", self.folder / "agent.conf"]
        self.child = Child(f"the agent {self.name}", command, self.log, env=self._made.env)
        self.child.wait_until_ready(lambda: self.ask("agent.ping") == "1")

    def stop(self) -> None:
        if self.child is not None:
            self.child.end()
            self.child = None

    def ask(self, key: str) -> str:
        """What it answers to the server for an item; the error's text if it is none."""
        where = ("--host=127.0.0.1", f"--port={self.port}")
        command: list[str | Path] = [self._made.program("zabbix_get"), *where, f"--key={key}"]
        if self.psk is not None:
            identity = f"--tls-psk-identity={self.psk.identity}"
            command += ["--tls-connect=psk", identity, f"--tls-psk-file={self.psk.file}"]
        done = run(command, timeout=60, env=self._made.env, check=False)
        return (done.stdout or done.stderr).strip()
