"""What happens on any day and is no failure: none of it may begin a failover."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vcrecovery.detect.host_watch import ASK_EVERY
from vcrecovery_lab.detection.chain import Chain
from vcrecovery_lab.pair.waiting import wait_until
from vcrecovery_lab.private_libvirt import PrivateLibvirt

from .site import IDLES, PATIENCE, UUID, VM, Site, Watcher
from .stage_kills import OWN

#: Seconds after which both have read the VM's state again.
_READ_AGAIN = int(ASK_EVERY) + 1


@dataclass(frozen=True)
class Alarm:
    """`failovers` that each way began while it happened: 0 is right."""

    what: str
    seconds: float
    failovers: Mapping[str, int]


def measure_alarms(site: Site, chain: Chain, own: Watcher, other: PrivateLibvirt, idle: float) -> list[Alarm]:
    """Zabbix and the own watcher look at the VM at the same time. `other` is a second hypervisor to migrate to."""
    libvirt, found = site.libvirt, []
    sites = {f"Zabbix {chain.stack.version}": site, OWN: own.site}

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

    def reboot() -> None:
        site.reboot_from_inside()

    def libvirtd() -> None:
        libvirt.kill()
        libvirt.start()

    def relay() -> None:
        chain.stop_part("relay")
        chain.start_relay()

    def watchers() -> None:
        chain.stop_part("watch")
        chain.start_watch()
        own.restart()

    def zabbix() -> None:
        chain.stack.restart_server()

    def migration() -> None:
        libvirt.migrate(VM, other)
        seen("shutoff (migrated)")
        heard(_READ_AGAIN)
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
        ("the watchers restarted", watchers),
        ("Zabbix restarted", zabbix),
    ]
    site.make(IDLES)
    seen("running")
    chain.wait_for_calm()
    for what, happen in happenings:
        before, begun = _begun(sites), time.monotonic()
        happen()
        heard(_READ_AGAIN)
        chain.wait_for_calm()
        after = _begun(sites)
        found.append(Alarm(what, time.monotonic() - begun, {way: after[way] - before[way] for way in sites}))
    return found


def _begun(sites: Mapping[str, Site]) -> dict[str, int]:
    return {way: len(site.episodes()) for way, site in sites.items()}
