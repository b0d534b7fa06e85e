"""What it costs to read every guest of every hypervisor, again and again."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass

from sync_bench.processes import Memory, cpu, memory
from vcrecovery.plan.monitoring import COPY_LIVES, COPY_POLL

from .agents import Agent, Guest
from .program import Program
from .recorder import Recorded, Recorder
from .scale import Scale

#: For the first answers of all agents, and for Zabbix to be told of every guest.
_START_SECONDS = 120.0


@dataclass(frozen=True)
class Values:
    """Of agents of one kind: values of utilisation that their polls should have brought, that came, and were right."""

    kind: str
    expected: int
    came: int
    right: int


@dataclass(frozen=True)
class PollingCost:
    """`cores` is CPU time divided by time; `longest_gap` the longest time between two values of a guest, in seconds."""

    guests: int
    seconds: float
    cores: float
    memory: Memory
    values: list[Values]
    longest_gap: float


def uuid_of(hypervisor: int, guest: int) -> str:
    return f"6f1c2a54-7c0d-4a7e-9a51-{hypervisor:06x}{guest:06x}"


def fill(agents: Sequence[Agent], scale: Scale) -> None:
    """Guests of two vCPUs, each of them with another load. Every second agent behaves as libvirt-snmp."""
    for number, agent in enumerate(agents):
        guests = [
            Guest(uuid_of(number, guest), f"vm-{number}-{guest}", rate=2 * 10**9 * (guest + 1) // scale.guests)
            for guest in range(scale.guests)
        ]
        if number % 2:
            agent.kind = "libvirt-snmp"
            agent.show(guests, libvirt=None, copy=COPY_LIVES)
        else:
            agent.show(guests)


def wait_until_settled(recorder: Recorder, scale: Scale) -> None:
    """Until every guest's utilisation has come."""
    wanted = scale.hypervisors * scale.guests
    recorder.wait_for(
        lambda: len({v.key for v in recorder.values() if v.key.startswith("vcr.cpu")}) >= wanted,
        "utilisation",
        _START_SECONDS,
    )


def measure_polling(program: Program, agents: Sequence[Agent], recorder: Recorder, scale: Scale) -> PollingCost:
    """The relay must have settled."""
    assert program.process is not None  # noqa: S101  it was started
    pid = program.process.pid
    seconds = max(scale.poll, COPY_POLL) * scale.polls
    before, begun = cpu(pid), time.time()
    time.sleep(seconds)
    used, ended = cpu(pid) - before, time.time()
    # Values travel for a moment.
    time.sleep(scale.poll / 2)
    found = [value for value in recorder.values() if begun <= value.clock < ended]
    return PollingCost(
        scale.hypervisors * scale.guests,
        ended - begun,
        used / (ended - begun),
        memory("relay", [pid]),
        [values_of(kind, agents, found, scale) for kind in ("vcrecovery", "libvirt-snmp")],
        _longest_gap(found),
    )


def values_of(kind: str, agents: Sequence[Agent], found: Sequence[Recorded], scale: Scale) -> Values:
    """Each heartbeat is a poll. It should bring a value of each guest, within 5 per cent or one point of its load."""
    hosts = {agent.name for agent in agents if agent.kind == kind}
    polls = sum(value.host in hosts and value.key == "vcr.heartbeat" for value in found)
    came = [value for value in found if value.host in hosts and value.key.startswith("vcr.cpu")]
    loads = [(value.text, 100 * (int(value.key[-7:-1], 16) + 1) / scale.guests) for value in came]
    right = sum(_is_right(said, load) for said, load in loads)
    return Values(kind, polls * scale.guests, len(came), right)


def _is_right(said: str, load: float) -> bool:
    try:
        return abs(float(said) - load) <= max(1.0, load * 0.05)
    except ValueError:
        return False


def _longest_gap(found: Sequence[Recorded]) -> float:
    times: dict[tuple[str, str], list[float]] = {}
    for value in found:
        if value.key.startswith("vcr.cpu"):
            times.setdefault((value.host, value.key), []).append(value.clock)
    return max((b - a for clocks in times.values() for a, b in itertools.pairwise(clocks)), default=float("inf"))
