"""What it costs to read every guest of every hypervisor, again and again."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass

from sync_bench.processes import Memory, cpu, memory

from .agents import Agent, Guest
from .program import Program
from .recorder import Recorder
from .scale import Scale

#: For the first answers of all agents, and for Zabbix to be told of every guest.
_START_SECONDS = 120.0


@dataclass(frozen=True)
class PollingCost:
    """`cores` is CPU time divided by time. `expected` and `came` are values of utilisation, `wrong` are those far from
    the guest's load; `longest_gap` is the longest time between two of one guest, in seconds."""

    guests: int
    seconds: float
    cores: float
    memory: Memory
    expected: int
    came: int
    longest_gap: float
    wrong: int


def uuid_of(hypervisor: int, guest: int) -> str:
    return f"6f1c2a54-7c0d-4a7e-9a51-{hypervisor:06x}{guest:06x}"


def fill(agents: Sequence[Agent], scale: Scale) -> None:
    """Guests of two vCPUs, each of them with another load."""
    for number, agent in enumerate(agents):
        agent.show(
            [
                Guest(uuid_of(number, guest), f"vm-{number}-{guest}", rate=2 * 10**9 * (guest + 1) // scale.guests)
                for guest in range(scale.guests)
            ]
        )


def wait_until_settled(recorder: Recorder, scale: Scale) -> None:
    """Until every guest's utilisation has come twice."""
    wanted = 2 * scale.hypervisors * scale.guests
    recorder.wait_for(
        lambda: sum(v.key.startswith("vcr.cpu") for v in recorder.values()) >= wanted, "utilisation", _START_SECONDS
    )


def measure_polling(program: Program, recorder: Recorder, scale: Scale) -> PollingCost:
    """The relay must have settled."""
    assert program.process is not None  # noqa: S101  it was started
    pid = program.process.pid
    seconds = scale.poll * scale.polls
    before, begun = cpu(pid), time.time()
    time.sleep(seconds)
    used, ended = cpu(pid) - before, time.time()
    # Values travel for a moment.
    time.sleep(scale.poll / 2)
    times: dict[tuple[str, str], list[float]] = {}
    wrong = 0
    for value in recorder.values():
        if value.key.startswith("vcr.cpu") and begun <= value.clock < ended:
            times.setdefault((value.host, value.key), []).append(value.clock)
            load = 100 * (int(value.key[-7:-1], 16) + 1) / scale.guests
            wrong += not load * 0.85 - 1 <= float(value.text) <= load * 1.15 + 1
    gaps = [b - a for found in times.values() for a, b in itertools.pairwise(found)]
    guests = scale.hypervisors * scale.guests
    return PollingCost(
        guests,
        ended - begun,
        used / (ended - begun),
        memory("relay", [pid]),
        guests * scale.polls,
        sum(len(found) for found in times.values()),
        max(gaps, default=float("inf")),
        wrong,
    )
