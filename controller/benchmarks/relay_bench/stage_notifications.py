"""How soon Zabbix has what a notification says: alone, and in a storm of strangers."""

from __future__ import annotations

import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sync_bench.processes import cpu, memory

from .agents import Agent, client_environment
from .eavesdropper import eavesdropping
from .program import LISTEN, Program
from .recorder import Recorder
from .scale import Scale
from .stage_polling import uuid_of

_CATCH = "127.0.1.10"
STRANGER = "127.0.1.77"
STORM_RATE = 10_000
FLOOD_RATE = 20_000
_ROOT = "1.3.6.1.4.1.36957"
_TABLE = f"{_ROOT}.1.1.1"

#: Arguments: the source, the target and its port, how many in a second, for how long, the datagrams in turn.
STORM = """
import socket, sys, time
source, address, port, rate, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
datagrams = [bytes.fromhex(text) for text in sys.argv[6:]]
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind((source, 0))
begun, sent = time.monotonic(), 0
while (passed := time.monotonic() - begun) < seconds:
    while sent < passed * rate:
        sock.sendto(datagrams[sent % len(datagrams)], (address, port))
        sent += 1
    time.sleep(0.001)
print(sent)
"""


@dataclass(frozen=True)
class Latency:
    """Milliseconds from the datagram's sending to the value's coming; CPU time and memory (PSS) are the relay's."""

    what: str
    count: int
    median: float
    p99: float
    high: float
    cores: float
    pss: int


@dataclass(frozen=True)
class Trap:
    """A datagram that net-snmp has made, and where it comes from and belongs to."""

    source: str
    host: str
    key: str
    data: bytes


def notification(uuid: str, state: int, event: str, detail: str) -> list[str]:
    """Words for net-snmp's clients."""
    words = ["", f"{_ROOT}.0.1", f"{_TABLE}.2.0", "s", "a name", f"{_TABLE}.1.0", "x", uuid.replace("-", "")]
    words += [f"{_TABLE}.3.0", "i", str(state), f"{_TABLE}.9.0", "i", "2"]
    return [*words, f"{_ROOT}.1.2.1.0", "s", event, f"{_ROOT}.1.2.2.0", "s", detail]


def catch_trap(folder: Path, engine_id: str, boots_and_time: str, what: Sequence[str], *options: str) -> bytes:
    """What net-snmp's snmptrap would have sent to the relay."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((_CATCH, 0))
        sock.settimeout(30)
        target = f"{_CATCH}:{sock.getsockname()[1]}"
        words = ["snmptrap", "-m", "", "-v3", "-e", f"0x{engine_id}", "-Z", boots_and_time, *options, target, *what]
        env = client_environment(folder)
        subprocess.run(words, env=env, check=True, timeout=60, stderr=subprocess.DEVNULL)
        return sock.recv(65535)


@contextmanager
def storm(
    source: str, port: int, seconds: float, datagrams: Sequence[bytes], rate: int = STORM_RATE
) -> Iterator[subprocess.Popen[bytes]]:
    """So many datagrams a second, from a process of its own."""
    words = [sys.executable, "-IS", "-c", STORM, source, LISTEN, str(port), str(rate), str(seconds)]
    process = subprocess.Popen([*words, *(data.hex() for data in datagrams)], stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def sniffed_and_forged(folder: Path, agent: Agent, program: Program) -> list[bytes]:
    """An inform of this agent as somebody has sniffed it, and the same with another signature."""
    what = notification(uuid_of(0, 0), 3, "suspended", "paused")
    with eavesdropping(agent.address, (LISTEN, program.port)) as middle:
        middle.inform(folder, what)
    sniffed = middle.informs[-1]
    return [sniffed, bytes([*sniffed[:-1], sniffed[-1] ^ 1])]


def make_traps(folder: Path, agents: Sequence[Agent], scale: Scale, state: int, detail: str, age: int) -> list[Trap]:
    """One for each of so many guests, of all hypervisors in turn. `age` is the agents' time in them."""
    traps = []
    for number in range(scale.notifications):
        agent = agents[number % len(agents)]
        uuid = uuid_of(agent.number, number // len(agents) % scale.guests)
        words = notification(uuid, state, "stopped" if detail else "started", detail)
        data = catch_trap(folder / "sender", agent.engine_id, f"1,{age}", words)
        traps.append(Trap(agent.address, agent.name, f"vcr.state[{uuid}]", data))
    return traps


def measure_latency(
    what: str, traps: Sequence[Trap], word: str, program: Program, recorder: Recorder, seconds: float
) -> Latency:
    """Sends them over so many seconds; each has to come as `word`."""
    assert program.process is not None  # noqa: S101  it was started
    before, begun = cpu(program.process.pid), time.time()
    sent: dict[tuple[str, str], float] = {}
    for trap in traps:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind((trap.source, 0))
            sent[trap.host, trap.key] = time.time()
            sock.sendto(trap.data, (LISTEN, program.port))
        time.sleep(seconds / len(traps))

    def came() -> dict[tuple[str, str], float]:
        return {
            (v.host, v.key): v.arrived
            for v in reversed(recorder.values())
            if v.text == word and v.arrived >= sent.get((v.host, v.key), float("inf"))
        }

    recorder.wait_for(lambda: len(came()) == len(sent), f"every notification ({what})", 20.0)
    used = (cpu(program.process.pid) - before) / (time.time() - begun)
    pss = memory("relay", [program.process.pid]).pss
    delays = sorted((came()[item] - at) * 1000 for item, at in sent.items())
    return Latency(
        what, len(delays), statistics.median(delays), delays[int(len(delays) * 0.99) - 1], delays[-1], used, pss
    )
