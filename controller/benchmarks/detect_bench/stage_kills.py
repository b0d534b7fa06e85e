"""SIGKILL of a VM's QEMU, again and again: how soon a failover begins, and where the time goes."""

from __future__ import annotations

import os
import re
import signal
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from vcrecovery_lab.detection.chain import Chain
from vcrecovery_lab.private_libvirt import PrivateLibvirt

from .served import fail_and_wait
from .site import UUID, VM, Site, now

OWN = "own watcher"


@dataclass(frozen=True)
class Delays:
    """Seconds of each round, from the failure to the failover's first step; `stages` are parts of that.

    `answered`: until the service answers through its name, where that was measured.
    """

    way: str
    whole: list[float]
    stages: dict[str, list[float]] = field(default_factory=dict)
    answered: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.whole)


def kill(site: Site) -> float:
    """When."""
    pid = site.libvirt.qemu(VM)
    at = now()
    os.kill(pid, signal.SIGKILL)
    return at


def measure_own(folder: Path, libvirt: PrivateLibvirt, rounds: int, window: float) -> Delays:
    """By the controller's own watcher."""

    def fail(pid: int) -> None:
        os.kill(pid, signal.SIGKILL)

    found = [fail_and_wait(folder / str(n), libvirt, fail, lambda _pid: None, window) for n in range(rounds)]
    return Delays(OWN, [x.begun for x in found], answered=[x.answered for x in found])


def measure_zabbix(site: Site, chain: Chain, rounds: int) -> Delays:
    """Through an agent, the relay, Zabbix and its agent; the chain's clocks are all this machine's."""
    whole: list[float] = []
    stages: dict[str, list[float]] = {}
    for number in range(rounds):
        at = kill(site)
        begun = site.begun_after(number)
        event = chain.problems()[-1]
        moments = {
            "libvirt, agent, inform": _logged(chain.log("relay"), r"notification: .*: stopped"),
            "relay, item, trigger, action": _executed(chain.zabbix.agent_log, event["event"]),
            "command, API": _logged(chain.log("watch"), rf"event {event['event']}: VM "),
            "judging, lock": begun,
        }
        whole.append(begun - at)
        for name, moment in moments.items():
            stages.setdefault(name, []).append(moment - at)
            at = moment
        site.libvirt.virsh("start", VM)
        chain.wait_for_value(f"vcr.state[{UUID}]", "running")
        chain.wait_for_calm()
    return Delays(f"Zabbix {chain.stack.version}", whole, stages)


def _logged(log: Path, pattern: str) -> float:
    """The time of the newest such line of one of this project's programs."""
    lines = [line for line in log.read_text().splitlines() if re.search(pattern, line)]
    return datetime.strptime(lines[-1][:23], "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp()


def _executed(log: Path, event: str) -> float:
    """When Zabbix's agent was told to start the event's command, for the first time."""
    wanted = re.compile(rf"\d+:(\d{{8}}:\d{{6}}\.\d{{3}}) Executing command '.* event {event} ")
    found = next(match for line in log.read_text().splitlines() if (match := wanted.search(line)))
    return datetime.strptime(found[1], "%Y%m%d:%H%M%S.%f").astimezone().timestamp()


def spread(values: Sequence[float]) -> str:
    """Median (lowest to highest), in milliseconds."""
    low, middle, high = (round(x * 1000) for x in (min(values), statistics.median(values), max(values)))
    return f"{middle:,} ms ({low:,} to {high:,})"
