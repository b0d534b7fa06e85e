"""Asks the outside whether it is what the plan says. Changes nothing."""

from __future__ import annotations

import os

from vcrecovery.errors import VCRecoveryError
from vcrecovery.recover.states import Power
from vcrecovery.recover.world import World
from vcrecovery.sync.databases import copied_as_files
from vcrecovery.sync.rootfs import Rootfs


def warnings_outside(world: World) -> list[str]:
    """What may be meant so, but loses data when it is not, a line each; only of standbys on this machine."""
    found: list[str] = []
    for name, service in world.plan.services.items():
        place = world.plan.secondaries[service.standby.secondary]
        lxd = world.lxd[service.standby.secondary]
        if not lxd.is_here:
            continue
        rootfs = lxd.rootfs(place.storage_pool, name)
        if os.access(rootfs, os.R_OK | os.X_OK):
            found += copied_as_files(name, service, Rootfs(rootfs, []))
    return found


def check_outside(world: World) -> list[str]:
    """Every problem that hypervisors, secondaries and DNS servers show, a line each."""
    problems: list[str] = []
    silent: set[str] = set()
    for name, service in world.plan.services.items():
        host = world.hosts[service.primary.hypervisor]
        lxd = world.lxd[service.standby.secondary]
        if host.name not in silent:
            try:
                if host.read(str(service.primary.uuid)).power is Power.ABSENT:
                    problems.append(
                        f"services.{name}.primary.uuid: hypervisor {host.name} knows no VM {service.primary.uuid}"
                    )
            except VCRecoveryError as error:
                silent.add(host.name)
                problems.append(f"hypervisors.{host.name}: {error}")
        if lxd.name not in silent:
            try:
                if lxd.get(name) is None:
                    problems.append(
                        f"services.{name}.standby: secondary {lxd.name} has no container {name}; "
                        "the role `secondary` makes it"
                    )
            except VCRecoveryError as error:
                silent.add(lxd.name)
                problems.append(f"secondaries.{lxd.name}: {error}")
    for name, zone in world.zones.items():
        try:
            zone.check_key()
            for record_owner in world.plan.services.values():
                for record in record_owner.dns:
                    if record.zone == name:
                        for server in zone.servers:
                            zone.read(server, record.name)
        except VCRecoveryError as error:
            problems.append(f"dns.zones.{name}: {error}")
    return problems
