"""Stage 2: small writes with everything running as in the VM, and what that costs there."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from vcrecovery_lab.pair import process
from vcrecovery_lab.pair.pair import Pair
from vcrecovery_lab.pair.waiting import wait_until
from vcrecovery_lab.progress import stderr_progress

from .processes import Memory, cpu, memory
from .scale import Scale
from .writes import Latency, latency

OURS, RECONCILING, DEFAULT = "ours", "ours, a reconcile in the middle", "lsyncd's defaults"
#: Everything that default.rsync has by itself. What is named is what it needs to get through the receiver at all.
_DEFAULT_LUA = """\
settings {{ nodaemon = true }}
sync {{
  default.rsync, source = "{tree}", target = "receiver:/", init = false,
  rsync = {{ rsh = "/usr/bin/ssh -F {ssh_config}", protect_args = false, archive = true }},
}}
"""


@dataclass(frozen=True)
class Cpu:
    """Seconds of CPU time in a minute."""

    what: str
    lsyncd: float
    """With the rsync and ssh that it runs."""
    heartbeat: float
    ssh_master: float

    @property
    def total(self) -> float:
        return self.lsyncd + self.heartbeat + self.ssh_master


@dataclass(frozen=True)
class WriteCosts:
    latencies: list[Latency]
    cpu: list[Cpu]
    memory: list[Memory]


def measure_writes(pair: Pair, paths: Sequence[bytes], scale: Scale) -> WriteCosts:
    """Each write takes a path of its own."""
    primary, rootfs = pair.primary, pair.standby.rootfs
    free = iter(paths)

    def some(seconds: float) -> list[bytes]:
        return [next(free) for _ in range(round(scale.rate * seconds))]

    with stderr_progress("writes: lsyncd's start and first reconcile"):
        primary.start()
        pair.wait_whole(300)
    with stderr_progress(f"writes: idle for {scale.idle_seconds:.0f} s"):
        before = _Used(pair)
        time.sleep(scale.idle_seconds)
        used = [_Used(pair).since(before, "idle")]
    with stderr_progress(f"writes: {OURS}, {scale.seconds:.0f} s"):
        before = _Used(pair)
        found = [latency(OURS, primary.tree, rootfs, some(scale.seconds), scale.rate, scale.seconds)]
        used.append(_Used(pair).since(before, f"{scale.rate:g} writes/s"))
    memories = _memories(pair)
    seconds = scale.reconcile_seconds
    with stderr_progress(f"writes: {RECONCILING}, {seconds:.0f} s"):
        began = primary.reconciles
        ask = primary.ask_for_reconcile
        found.append(latency(RECONCILING, primary.tree, rootfs, some(seconds), scale.rate, seconds, ask))
        wait_until(lambda: primary.reconciles > began and primary.idle, "the reconcile", 120)
    primary.kill()
    (primary.folder / "lsyncd.lua").write_text(_DEFAULT_LUA.format(tree=primary.tree, ssh_config=primary.ssh_config))
    seconds = scale.default_seconds
    with stderr_progress(f"writes: {DEFAULT}, {seconds:.0f} s"):
        primary.start()
        probe = "srv/probe"

        def watching() -> bool:
            (primary.tree / probe).write_text("x")
            return (rootfs / probe).exists()

        wait_until(watching, "lsyncd's first transfer", 120, poll=1)
        found.append(latency(DEFAULT, primary.tree, rootfs, some(seconds), scale.rate, seconds))
    primary.kill()
    primary.configure()
    return WriteCosts(found, used, memories)


class _Used:
    """CPU time used so far."""

    def __init__(self, pair: Pair) -> None:
        self.at = time.monotonic()
        self.lsyncd = cpu(pair.primary.lsyncd.pid) if pair.primary.lsyncd else 0.0
        self.heartbeat = cpu(pair.primary.heartbeat.pid) if pair.primary.heartbeat else 0.0
        self.master = sum(cpu(pid) for pid in _masters(pair))

    def since(self, before: _Used, what: str) -> Cpu:
        factor = 60 / (self.at - before.at)
        return Cpu(
            what,
            (self.lsyncd - before.lsyncd) * factor,
            (self.heartbeat - before.heartbeat) * factor,
            (self.master - before.master) * factor,
        )


def _masters(pair: Pair) -> list[int]:
    """ssh's background process, by the title that it gives itself."""
    found = []
    for pid in process.having(pair.primary.folder):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if b"[mux]" in file.read():
                    found.append(pid)
        except OSError:
            continue
    return found


def _memories(pair: Pair) -> list[Memory]:
    primary = pair.primary
    running = [("lsyncd", primary.lsyncd), ("heartbeat", primary.heartbeat)]
    found = [memory(name, [one.pid]) for name, one in running if one is not None]
    return [*found, memory("ssh master", _masters(pair))]
