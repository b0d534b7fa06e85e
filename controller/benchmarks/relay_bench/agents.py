"""Agents of hypervisors: net-snmp's snmpd with a table of guests that is a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from vcrecovery_lab.ports import free_port

USER, AUTH, PRIVACY = "relay", "first secret words", "other secret words"
COMMUNITY = "old agents"
_PROGRAM = Path(__file__).with_name("table_program.py")


@dataclass(frozen=True)
class Guest:
    """`rate` is how fast its CPU time grows: ns in a second."""

    uuid: str
    name: str
    state: int = 1
    vcpus: int = 2
    cpu_time: int = 10**12
    rate: int = 10**9


def client_environment(folder: Path, user: str = USER, auth: str = AUTH, privacy: str = PRIVACY) -> dict[str, str]:
    """For net-snmp's clients: credentials from a file, nothing left anywhere else."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lines = [
        f"defSecurityName {user}",
        "defSecurityLevel authPriv",
        "defAuthType SHA-256",
        f'defAuthPassphrase "{auth}"',
        "defPrivType AES",
        f'defPrivPassphrase "{privacy}"',
        f'defCommunity "{COMMUNITY}"',
    ]
    (folder / "snmp.conf").write_text("\n".join(lines) + "\n")
    return {
        "PATH": os.environ["PATH"] + ":/usr/sbin",
        "SNMPCONFPATH": str(folder),
        "SNMP_PERSISTENT_DIR": str(folder / "persistent"),
        "MIBS": "",
    }


class Agent:
    """One hypervisor's."""

    def __init__(self, name: str, address: str, folder: Path, number: int) -> None:
        self.name, self.address, self.folder, self.number = name, address, folder, number
        self.port = free_port(address)
        #: What the plan calls it.
        self.kind = "vcrecovery"
        self.engine_id = f"80001f880476637261{number:04x}"
        self._table = folder / "table.json"
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)
        self.show([])

    def show(
        self, guests: Sequence[Guest], libvirt: int | None = 1, enterprise: int = 36957, copy: float | None = None
    ) -> None:
        """What the table has from now on. `libvirt`: 1 if it answers, 2 if not, None for an agent that never says.

        `copy`: it answers from a copy that the first question after so many seconds makes anew; 5 for libvirt-snmp.
        """
        document = {
            "enterprise": enterprise,
            "libvirt": libvirt,
            "copy": copy,
            "since": time.monotonic(),
            "rows": [asdict(guest) for guest in guests],
        }
        new = self._table.with_suffix(".new")
        new.write_text(json.dumps(document))
        new.replace(self._table)

    def start(self) -> None:
        configuration = self.folder / "snmpd.conf"
        configuration.write_text(
            f"agentaddress udp:{self.address}:{self.port}\n"
            f"exactEngineID 0x{self.engine_id}\n"
            f'createUser {USER} SHA-256 "{AUTH}" AES "{PRIVACY}"\n'
            f"rouser {USER} priv\n"
            f"pass_persist .1.3.6.1.4.1.36957.1 {sys.executable} -IS {_PROGRAM} {self._table}\n"
            f"pass_persist .1.3.6.1.4.1.12345.1 {sys.executable} -IS {_PROGRAM} {self._table}\n"
        )
        env = client_environment(self.folder / "agent")
        log = self.folder / "snmpd.log"
        words = ["snmpd", "-f", "-C", "-c", str(configuration), "-Lf", str(log), "-p", str(self.folder / "pid")]
        self._process = subprocess.Popen(
            words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def table_programs(self) -> list[int]:
        """The processes that snmpd asks."""
        assert self._process is not None  # noqa: S101  it was started
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return [int(word) for word in children.read_text().split()]

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


@contextmanager
def agents(folder: Path, count: int) -> Iterator[list[Agent]]:
    """`count` agents that run, with empty tables."""
    made = [
        Agent(f"hv{number + 1}", f"127.0.{2 + number // 200}.{1 + number % 200}", folder / f"hv{number + 1}", number)
        for number in range(count)
    ]
    try:
        for agent in made:
            agent.start()
        yield made
    finally:
        for agent in made:
            agent.stop()
