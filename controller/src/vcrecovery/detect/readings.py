"""The state of every primary, asked once, for `status`."""

from __future__ import annotations

from collections.abc import Mapping

from vcrecovery.drivers.libvirt import DomainReading
from vcrecovery.errors import OutsideError
from vcrecovery.recover.states import Power
from vcrecovery.recover.world import World


def readings(world: World) -> Mapping[str, DomainReading]:
    """The state of every service's primary, for `status`. Hosts that do not answer give `UNREACHABLE`."""
    found = {}
    silent: dict[str, str] = {}
    for name, service in world.plan.services.items():
        host = service.primary.hypervisor
        try:
            if host in silent:
                raise OutsideError(silent[host])
            found[name] = world.hosts[host].read(str(service.primary.uuid))
        except OutsideError as error:
            silent[host] = error.message
            found[name] = DomainReading(Power.UNREACHABLE, detail=error.message)
    return found
