"""A VM that stops, and one that is busy: when that is known."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from vcrecovery_lab.detection.chain import Chain
from vcrecovery_lab.pair.waiting import wait_until
from vcrecovery_lab.private_libvirt import PrivateLibvirt

from .served import fail_and_wait
from .site import PATIENCE, SPINS, VM, Door, Site, now
from .stage_kills import Delays


def measure_hangs(folder: Path, libvirt: PrivateLibvirt, rounds: int, window: float) -> Delays:
    """All vCPUs stopped (SIGSTOP to QEMU), the port closed; by the controller's own watcher."""

    def fail(pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)

    found = [fail_and_wait(folder / str(n), libvirt, fail, _let_go, window) for n in range(rounds)]
    return Delays("hang, own watcher", [x.begun for x in found], answered=[x.answered for x in found])


def _let_go(pid: int) -> None:
    # The failover has ended it.
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def measure_hangs_by_zabbix(site: Site, chain: Chain, rounds: int) -> Delays:
    """The same through Zabbix, up to the failover's beginning: it is refused, for there is no standby."""
    whole = []
    for _ in range(rounds):
        before, pid = len(site.episodes()), site.libvirt.qemu(VM)
        at = now()
        os.kill(pid, signal.SIGSTOP)
        try:
            whole.append(site.begun_after(before) - at)
        finally:
            os.kill(pid, signal.SIGCONT)
        chain.wait_for_calm()
    return Delays(f"hang, Zabbix {chain.stack.version}", whole)


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
