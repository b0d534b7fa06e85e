"""Real BINDs on loopback, for one test: a primary, and secondaries that transfer its zones."""

from __future__ import annotations

import base64
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import dns.exception
import dns.message
import dns.query

from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.dns import Key, Server, Zone
from vcrecovery_lab.ports import free_port
from vcrecovery_lab.run import run

from .waiting import wait_for

SECRET = base64.b64encode(b"a secret of the tests, 32 bytes.").decode()
KEY = "vcrt.key"


@dataclass
class NameServer:
    """One named. `zones` has the text after `zone "NAME" {`, or the content of a zone that it is the primary of."""

    name: str
    folder: Path
    port: int = field(default_factory=free_port)
    zones: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def server(self) -> Server:
        return Server(self.name, "127.0.0.1", self.port)

    def serve(self, zone: str, records: str, grants: Sequence[str], secondaries: Sequence[NameServer] = ()) -> None:
        """Makes it the primary of a zone."""
        self.folder.mkdir(parents=True, exist_ok=True)
        text = f"$TTL 60\n@ IN SOA {self.name} hostmaster ( 1 60 10 604800 5 )\n@ IN NS {self.name}\n"
        (self.folder / f"{zone}.zone").write_text(f"{text}{self.name} IN A 127.0.0.1\n{records}")
        notified = "".join(f"127.0.0.1 port {other.port} key {KEY}; " for other in secondaries)
        self.zones[zone] = (
            f'type primary; file "{self.folder}/{zone}.zone"; allow-transfer {{ key {KEY}; }}; notify explicit; '
            f"notify-delay 0; also-notify {{ {notified}}}; "
            f"update-policy {{ {' '.join(f'grant {KEY} {grant};' for grant in grants)} }};"
        )

    def follow(self, zone: str, primary: NameServer) -> None:
        """Makes it a secondary of a zone."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.zones[zone] = (
            f'type secondary; file "{self.folder}/{zone}.copy"; masterfile-format text; min-refresh-time 1; '
            f"max-refresh-time 2; min-retry-time 1; max-retry-time 2; "
            f"primaries {{ 127.0.0.1 port {primary.port} key {KEY}; }};"
        )

    def start(self) -> None:
        options = (
            f'options {{ directory "{self.folder}"; pid-file none; lock-file none; session-keyfile none; recursion no; '
            f"listen-on port {self.port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; minimal-responses yes; "
            "allow-transfer { none; }; };\ncontrols { };\n"
        )
        key = f'key "{KEY}" {{ algorithm hmac-sha256; secret "{SECRET}"; }};\n'
        zones = "".join(f'zone "{name}" {{ {text} }};\n' for name, text in self.zones.items())
        file = self.folder / "named.conf"
        file.write_text(options + key + zones)
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(["named", "-g", "-n", "1", "-c", str(file)], stdout=log, stderr=log)
        wait_for(self._answers, f"{self.name} on port {self.port}")

    def _answers(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError((self.folder / "log").read_text()[-2000:])
        return all(self.dig(zone, "SOA") for zone in self.zones)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            # One that stands still ends once it goes on.
            self.process.send_signal(signal.SIGCONT)
            self.process.wait(30)
            self.process = None

    def dig(self, name: str, kind: str) -> list[str]:
        """What `dig +short +tcp` prints, sorted; nothing when it does not answer. Some tests ask hundreds of times."""
        query = dns.message.make_query(name, kind, flags=0)
        try:
            answer = dns.query.tcp(query, "127.0.0.1", timeout=10, port=self.port)
        except (OSError, dns.exception.DNSException):
            return []
        return sorted(record.to_text() for records in answer.answer for record in records)

    def change(self, *lines: str) -> None:
        """What somebody else does with nsupdate and the same key."""
        script = "".join(f"{line}\n" for line in (f"server 127.0.0.1 {self.port}", *lines, "send"))
        run(["nsupdate"], timeout=20, stdin=f"key hmac-sha256:{KEY} {SECRET}\n{script}")


def zone_of(name: str, servers: Sequence[NameServer], folder: Path, *, secret: str = SECRET, key: str = KEY) -> Zone:
    file = folder / f"{key}.secret"
    file.write_text(secret + "\n")
    file.chmod(0o600)
    return Zone(name, [server.server for server in servers], Key(key, "hmac-sha256", file), SystemClock())


def plan_section(zones: Mapping[str, Sequence[NameServer]], folder: Path) -> dict[str, object]:
    """The `dns` section of a plan for these zones."""
    file = folder / "plan.secret"
    file.write_text(SECRET + "\n")
    file.chmod(0o600)
    servers = {server.name: server for group in zones.values() for server in group}
    return {
        "servers": {name: {"address": "127.0.0.1", "port": server.port} for name, server in servers.items()},
        "keys": {"key1": {"name": KEY, "secret_file": str(file)}},
        "zones": {name: {"servers": [server.name for server in group], "key": "key1"} for name, group in zones.items()},
    }
