"""The relay itself, as a user runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from vcrecovery_lab.ports import free_port

from .agents import AUTH, COMMUNITY, PRIVACY, USER, Agent
from .recorder import Recorder

LISTEN = "127.0.1.9"
#: The plan's only service: guests of other UUIDs are none of its primaries.
SERVICE, SERVICE_UUID = "web", "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0abc"


def _secret(file: Path, text: str) -> str:
    file.touch(mode=0o600)
    file.write_text(text + "\n")
    return str(file)


def plan_of(folder: Path, agents: Sequence[Agent], recorder: Recorder, poll: float, *, v2c: bool) -> dict[str, Any]:
    """A plan with these agents, and the files that it names."""
    folder.mkdir(parents=True, exist_ok=True)
    user = {
        "auth_file": _secret(folder / "auth", AUTH),
        "privacy_file": _secret(folder / "privacy", PRIVACY),
    }
    traps: dict[str, Any] = {"listen": LISTEN, "port": free_port(LISTEN)}
    if v2c:
        traps["community_file"] = _secret(folder / "community", COMMUNITY)
    return {
        "version": 1,
        "state_dir": str(folder / "state"),
        "hypervisors": {
            agent.name: {"snmp": {"address": agent.address, "port": agent.port, "user": USER, "agent": agent.kind}}
            for agent in agents
        },
        "secondaries": {
            "sec1": {"network": {"bridge": "br0", "address": "10.9.0.1/24"}, "receiver": {"address": "10.9.0.1"}}
        },
        "snmp": {"users": {USER: user}, "traps": traps, "poll": poll},
        "zabbix": {"trapper": {"address": recorder.address, "port": recorder.port}},
        "services": {
            SERVICE: {
                "primary": {"hypervisor": agents[0].name, "uuid": SERVICE_UUID, "address": "10.9.1.1"},
                "standby": {"secondary": "sec1", "address": "10.9.0.2"},
                "ports": [80],
            }
        },
    }


class Program:
    """`vcrecovery relay` with a plan, in a process of its own."""

    def __init__(self, folder: Path, plan: dict[str, Any]) -> None:
        self.folder = folder
        self.log = folder / "relay.log"
        self.port: int = plan["snmp"]["traps"]["port"]
        self.state = Path(plan["state_dir"]) / "relay"
        self._plan = folder / "plan.yml"
        self._plan.write_text(yaml.safe_dump(plan))
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        words = [sys.executable, "-m", "vcrecovery", "relay", "--plan", str(self._plan)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=os.environ)

    def stop(self) -> int:
        """Its exit status."""
        if self.process is None:
            return 0
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def counters(self) -> dict[str, int]:
        """How many notifications were taken and not taken, for each reason; written when it stops, or every 10 s."""
        document: dict[str, dict[str, int]] = json.loads((self.state / "counters.json").read_text())
        return document["notifications"]
