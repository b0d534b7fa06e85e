"""The relay between two real agents of net-snmp and a trapper that keeps what comes. Loopback only."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from relay_bench.agents import Agent, Guest, agents, client_environment
from relay_bench.program import LISTEN, SERVICE_UUID, Program, plan_of
from relay_bench.recorder import Recorder
from vcrecovery_lab.ports import free_port

POLL = 0.5


WEB = Guest(SERVICE_UUID, "web-vm", rate=10**9)


OTHER = Guest("6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0def", "other-vm", rate=0)


HALF_BUSY = Guest("6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0111", "half-busy", rate=10**9)


NEW_ROOT, OLD_ROOT = "1.3.6.1.4.1.36957", "1.3.6.1.4.1.12345"


SHUTOFF, RUNNING = 5, 1


#: Boots and time of an agent in its traps: long after every answer that the tests get from it.
LATER = "1,100000"


def state(uuid: str) -> str:
    return f"vcr.state[{uuid}]"


def cpu(uuid: str) -> str:
    return f"vcr.cpu[{uuid}]"


def variables(uuid: str, number: int, event: str = "", detail: str = "", root: str = NEW_ROOT) -> list[str]:
    """A notification as words for net-snmp's clients; with `event` it has this project's own variables too."""
    table = f"{root}.1.1.1"
    words = ["", f"{root}.0.1"]
    words += [f"{table}.2.0", "s", "a name", f"{table}.1.0", "x", uuid.replace("-", "")]
    words += [f"{table}.3.0", "i", str(number), f"{table}.9.0", "i", "1"]
    if event:
        words += [f"{root}.1.2.1.0", "s", event, f"{root}.1.2.2.0", "s", detail]
    return words


CRASHED = variables(SERVICE_UUID, SHUTOFF, "stopped", "crashed")


@dataclass
class Made:
    """Two hypervisors, the relay, and what stands for Zabbix."""

    folder: Path
    hv1: Agent
    hv2: Agent
    recorder: Recorder
    program: Program
    #: Of each item, how many values were waited for.
    _seen: dict[tuple[str, str], int] = field(default_factory=dict)

    def last(self, host: str, key: str) -> str | None:
        found = self.recorder.values(host, key)
        return found[-1].text if found else None

    def wait_for_state(self, host: str, uuid: str, word: str) -> None:
        """Until it comes after what was waited for before; the next one may be there by then.

        A notification counts for some seconds only. After that the table does, and both may come in one packet.
        """
        item = (host, state(uuid))

        def came() -> bool:
            words = [value.text for value in self.recorder.values(*item)]
            start = self._seen.get(item, 0)
            if word not in words[start:]:
                return False
            self._seen[item] = words.index(word, start) + 1
            return True

        self.recorder.wait_for(came, f"{host}: {word}")

    def wait_for_polls(self, host: str, count: int) -> None:
        """So many more answers of this agent than now."""
        wanted = len(self.recorder.values(host, "vcr.heartbeat")) + count
        self.recorder.wait_for(
            lambda: len(self.recorder.values(host, "vcr.heartbeat")) >= wanted, f"{count} polls of {host}"
        )

    def client(self, *words: str, source: str, env: dict[str, str] | None = None) -> bool:
        """Whether net-snmp's client says that it went well."""
        target = f"{LISTEN}:{self.program.port}"
        command = [words[0], "-m", "", "-Y", f"clientaddr {source}", *words[1:]]
        place = command.index("TARGET")
        command[place] = target
        env = env or client_environment(self.folder / "client")
        return subprocess.run(command, env=env, capture_output=True, timeout=120, check=False).returncode == 0

    def inform(self, agent: Agent, what: list[str], *, again: int = 10, after: int = 1) -> bool:
        """It is sent `again` so often, each time `after` so many seconds without an answer."""
        patience = ("-r", str(again), "-t", str(after))
        return self.client("snmpinform", "-v3", *patience, "TARGET", *what, source=agent.address)

    def inform_once(self, agent: Agent, what: list[str]) -> bool:
        """Where they are counted: a machine that stands still for some seconds is no reason to send it again."""
        return self.inform(agent, what, again=0, after=50)

    def trap(self, agent: Agent, what: list[str], **options: Any) -> None:
        engine = options.pop("engine", agent.engine_id)
        words = ["snmptrap", "-v3", "-e", f"0x{engine}", "-Z", LATER, "TARGET", *what]
        assert self.client(*words, source=agent.address, **options)

    def log_has(self, text: str) -> bool:
        return text in self.program.log.read_text()

    def stopped_counters(self) -> dict[str, int]:
        """Ends the relay, which has to be clean, and reads its counters."""
        assert self.program.stop() == 0
        return {reason: count for reason, count in self.program.counters().items() if count}


@pytest.fixture(scope="module", name="pair_of_agents")
def both_agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Agent]]:
    with agents(tmp_path_factory.mktemp("agents"), 2) as made:
        yield made


@pytest.fixture(name="made")
def relay_made(tmp_path: Path, pair_of_agents: list[Agent]) -> Iterator[Made]:
    hv1, hv2 = pair_of_agents
    hv1.show([WEB])
    hv2.show([replace(OTHER, rate=10**8)])
    recorder = Recorder("127.0.1.8", free_port("127.0.1.8"))
    program = Program(tmp_path, plan_of(tmp_path, [hv1, hv2], recorder, POLL, v2c=True))
    recorder.start()
    program.start()
    try:
        recorder.wait_for(
            lambda: all(recorder.values(host, "vcr.heartbeat") for host in ("hv1", "hv2")), "both agents' answers"
        )
        yield Made(tmp_path, hv1, hv2, recorder, program)
    finally:
        assert program.process is not None
        program.process.kill()
        program.process.wait()
        recorder.stop()
