"""net-snmp's own programs, each in a folder of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

from .pair.waiting import wait_until
from .ports import free_port
from .run import run

USER, AUTH, PRIVACY = "vcr", "an auth passphrase", "a privacy passphrase"
#: Without MIB files, numbers only, strings in hexadecimal.
QUIET = ["-m", "", "-Onqx"]
V3 = ["-v3", "-l", "authPriv", "-u", USER, "-a", "SHA-256", "-A", AUTH, "-x", "AES", "-X", PRIVACY]
CREATE_USER = f'createUser {USER} SHA-256 "{AUTH}" AES "{PRIVACY}"\n'
READY = "NET-SNMP version"
#: Seconds for a daemon to come up.
PATIENCE = 120.0


class Daemon:
    """snmpd or snmptrapd with its configuration, its engine's identity and its log."""

    def __init__(self, folder: Path, program: str, configuration: str, *options: str, user: str = CREATE_USER) -> None:
        self.folder, self.program, self._options = folder, program, options
        self.port = free_port()
        (folder / "persistent").mkdir(parents=True)
        (folder / f"{program}.conf").write_text(configuration.replace("@PORT@", str(self.port)))
        (folder / "persistent" / f"{program}.conf").write_text(user)
        self.log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        env = {
            **os.environ,
            "SNMPCONFPATH": f"{self.folder}:{self.folder}/persistent",
            "SNMP_PERSISTENT_DIR": str(self.folder / "persistent"),
            "MIBS": "",
        }
        command = [self.program, "-f", "-A", "-Lf", str(self.log), *self._options]
        before = self.log.read_text().count(READY) if self.log.exists() else 0
        with (self.folder / "output").open("ab") as output:
            self._process = subprocess.Popen(command, env=env, stdout=output, stderr=output)
        try:
            wait_until(lambda: self.log.exists() and self.log.read_text().count(READY) > before, self.program, PATIENCE)
        except BaseException:
            self.stop()
            raise

    def become_another(self) -> None:
        """As after a new installation: another engine, that has the same user. For one that is stopped."""
        kept = self.folder / "persistent"
        shutil.rmtree(kept)
        kept.mkdir()
        (kept / f"{self.program}.conf").write_text(f"engineID another-{self.port}\n{CREATE_USER}")

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=30)
            self._process = None


def ask(port: int, program: str, *words: str, patience: float = 2.0) -> str:
    """What one of net-snmp's programs prints about an agent on this machine."""
    done = run(
        [program, *QUIET, *V3, "-t", str(patience), "-r", "2", f"127.0.0.1:{port}", *words], timeout=60, check=False
    )
    return done.stdout + done.stderr


def inform(port: int, *variables: str) -> bool:
    """Whether a receiver on this machine has taken a notification; `variables` as snmpinform has them."""
    words = ["-m", "", *V3, "-t", "5", "-r", "5", f"127.0.0.1:{port}", "", *variables]
    return run(["snmpinform", *words], timeout=60, check=False).returncode == 0


class Agent(Daemon):
    """snmpd with the table. It also lets its user write, so that a refusal is the program's own."""

    def __init__(self, folder: Path, command: str, root: str) -> None:
        configuration = f"agentaddress udp:127.0.0.1:@PORT@\nrwuser {USER} priv\npass_persist {root}.1 {command}\n"
        super().__init__(folder, "snmpd", configuration, "-I", "-smux")

    def walk(self, root: str) -> dict[str, str]:
        """OID -> value of all that is below `root`."""
        return parse(ask(self.port, "snmpbulkwalk", root))

    def get(self, oid: str) -> str:
        return ask(self.port, "snmpget", oid).strip()

    def set(self, oid: str, kind: str, value: str) -> str:
        return ask(self.port, "snmpset", oid, kind, value).strip()

    def seconds_to_answer(self, oid: str) -> float:
        begun = time.monotonic()
        self.get(oid)
        return time.monotonic() - begun


class TrapReceiver(Daemon):
    """snmptrapd that writes down what it gets."""

    def __init__(self, folder: Path) -> None:
        configuration = (
            f"snmpTrapdAddr udp:127.0.0.1:@PORT@\nauthUser log {USER} priv\nauthCommunity log vcr-community\n"
            "format2 RECEIVED|%v\\n\n"
        )
        super().__init__(folder, "snmptrapd", configuration, "-m", "", "-Onqx")

    def received(self) -> list[dict[str, str]]:
        """Variables by OID of each notification, in their order."""
        if not self.log.exists():
            return []
        return [parse(entry) for entry in self.log.read_text(errors="replace").split("RECEIVED|")[1:]]


def parse(printed: str) -> dict[str, str]:
    """Variables as net-snmp prints them with -Onqx. It breaks strings into lines of 16 bytes."""
    return {oid: value.strip('" \n') for oid, value in re.findall(r'(\.[0-9.]+) ("[^"]*"|-?[0-9.]+)', printed)}


def text(octets: str) -> str:
    return bytes.fromhex(octets).decode()
