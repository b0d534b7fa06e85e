"""The drivers that a plan names, made once each."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vcrecovery.drivers.clock import Clock, SystemClock
from vcrecovery.drivers.libvirt import LibvirtHost
from vcrecovery.drivers.lxd import LxdServer, OverHttps
from vcrecovery.plan.model import Plan, Secondary
from vcrecovery.recover.journal import Journal
from vcrecovery.recover.neighbours import Neighbours

if TYPE_CHECKING:
    from vcrecovery.drivers.dns import Zone


class World:
    """What is outside, as the plan describes it. Nothing is connected to before it is used."""

    def __init__(self, plan: Plan, clock: Clock | None = None) -> None:
        self.plan = plan
        self.clock: Clock = clock or SystemClock()
        self.hosts = {name: LibvirtHost(name, entry.uri) for name, entry in plan.hypervisors.items()}
        self.lxd = {name: LxdServer(name, _place(entry), self.clock) for name, entry in plan.secondaries.items()}

    @cached_property
    def askers(self) -> ThreadPoolExecutor:
        """For questions that are asked at the same time; one has to be free for each, or a silent server delays all."""
        return ThreadPoolExecutor(max_workers=4 * len(self.plan.services), thread_name_prefix="ask")

    @cached_property
    def neighbours(self) -> Neighbours:
        return Neighbours(self.plan, self.clock, self.journal)

    @cached_property
    def journal(self) -> Journal:
        return Journal(self.plan.state_dir / "journal.db")

    @cached_property
    def zones(self) -> dict[str, Zone]:
        # Loaded by those only whose services have names: it takes as long as a tenth of a second.
        from vcrecovery.drivers.dns import Key, Server, Zone

        servers = {n: Server(n, str(s.address), s.port) for n, s in self.plan.dns.servers.items()}
        keys = {n: Key(k.name, k.algorithm, k.secret_file) for n, k in self.plan.dns.keys.items()}
        return {
            name: Zone(name, [servers[s] for s in zone.servers], keys[zone.key], self.clock)
            for name, zone in self.plan.dns.zones.items()
        }


def _place(secondary: Secondary) -> Path | OverHttps:
    place = secondary.lxd
    if isinstance(place, Path):
        return place
    return OverHttps(place.url, place.certificate, place.key, place.server_certificate)
