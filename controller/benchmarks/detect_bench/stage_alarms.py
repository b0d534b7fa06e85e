"""What happens on any day and is no failure: none of it may begin a failover."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from vcrecovery_lab.detection.chain import Chain
from vcrecovery_lab.pair.waiting import wait_until
from vcrecovery_lab.private_libvirt import PrivateLibvirt

from .site import IDLES, PATIENCE, UUID, VM, Site


@dataclass(frozen=True)
class Alarm:
    """`failovers` that were begun while it happened: 0 is right."""

    what: str
    seconds: float
    failovers: int


def measure_alarms(site: Site, chain: Chain, other: PrivateLibvirt, idle: float) -> list[Alarm]:
    """Through Zabbix. `other` is a second hypervisor to migrate to."""
    libvirt, found = site.libvirt, []

    def seen(word: str) -> None:
        chain.wait_for_value(f"vcr.state[{UUID}]", word)

    def operator() -> None:
        libvirt.virsh("destroy", VM)
        seen("shutoff (destroyed)")
        libvirt.virsh("start", VM)
        seen("running")

    def suspended() -> None:
        libvirt.virsh("suspend", VM)
        seen("paused")
        libvirt.virsh("resume", VM)
        seen("running")

    def reset() -> None:
        libvirt.virsh("reset", VM)
        heard(3)

    def reboot() -> None:
        site.reboot_from_inside()
        heard(3)

    def libvirtd() -> None:
        libvirt.kill()
        libvirt.start()
        heard(3)

    def relay() -> None:
        chain.stop_part("relay")
        chain.start_relay()
        heard(3)

    def zabbix() -> None:
        chain.stack.restart_server()
        heard(3)

    def migration() -> None:
        libvirt.migrate(VM, other)
        seen("shutoff (migrated)")
        heard(3)
        other.migrate(VM, libvirt)
        seen("running")

    def heard(seconds: int) -> None:
        until = time.time() + seconds
        wait_until(lambda: chain.newest("vcr.heartbeat")[1] >= until, "heartbeats", PATIENCE, 0.2)

    def nothing() -> None:
        time.sleep(idle)

    happenings: list[tuple[str, Callable[[], None]]] = [
        (f"an idle guest for {idle:g} s", nothing),
        ("an operator's destroy", operator),
        ("an operator's suspend", suspended),
        ("a reset of the guest", reset),
        ("a reboot from inside the guest", reboot),
        ("a live migration and back", migration),
        ("libvirtd killed and started", libvirtd),
        ("the relay restarted", relay),
        ("Zabbix restarted", zabbix),
    ]
    site.make(IDLES)
    seen("running")
    chain.wait_for_calm()
    for what, happen in happenings:
        before, begun = len(site.episodes()), time.monotonic()
        happen()
        chain.wait_for_calm()
        found.append(Alarm(what, time.monotonic() - begun, len(site.episodes()) - before))
    return found
