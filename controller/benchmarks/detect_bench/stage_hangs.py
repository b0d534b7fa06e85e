"""A VM that stops, and one that is busy: when that is known."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from vcrecovery_lab.detection.chain import Chain
from vcrecovery_lab.pair.waiting import wait_until

from .site import PATIENCE, SPINS, VM, Door, Site, now, wait_for_line
from .stage_kills import Delays


def measure_hangs(site: Site, log: Path, rounds: int) -> Delays:
    """All vCPUs stopped (SIGSTOP to QEMU), the port closed; by the controller's own watcher."""
    whole = []
    for _ in range(rounds):
        wait_for_line(log, "web: the primary is running", log.read_text().count("web: the primary is running") - 1)
        before = len(site.episodes())
        pid = site.libvirt.qemu(VM)
        at = now()
        os.kill(pid, signal.SIGSTOP)
        try:
            whole.append(site.begun_after(before) - at)
        finally:
            os.kill(pid, signal.SIGCONT)
    return Delays("hang, own watcher", whole)


def measure_hang_by_zabbix(site: Site, chain: Chain) -> Delays:
    """The same through Zabbix, once."""
    before, pid = len(site.episodes()), site.libvirt.qemu(VM)
    at = now()
    os.kill(pid, signal.SIGSTOP)
    try:
        begun = site.begun_after(before)
    finally:
        os.kill(pid, signal.SIGCONT)
    chain.wait_for_calm()
    return Delays(f"hang, Zabbix {chain.stack.version}", [begun - at])


def measure_overload(site: Site, chain: Chain, door: Door) -> Delays:
    """A guest that is busy and still answers: from its start to the controller's answer; nothing is moved."""
    door.open()
    # Else all that is measured is the time for which a guest may boot.
    chain.set_macro("{$VCR.BOOT.GRACE}", "1s")
    site.make(SPINS)
    at = now()
    wait_until(lambda: "overloaded" in chain.log("watch").read_text(), "the word of the overload", PATIENCE, 0.05)
    taken = now() - at
    return Delays(f"overload, Zabbix {chain.stack.version}", [taken])
