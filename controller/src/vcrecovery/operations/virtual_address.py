"""The virtual address that follows a service: taken while the standby serves, given up when the primary does again."""

from __future__ import annotations

from vcrecovery.drivers import virtual_ip
from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.virtual_ip import VirtualIp
from vcrecovery.plan.model import Service


def _of(service: Service) -> tuple[VirtualIp, str] | None:
    """The address, and where in the standby it leads to."""
    if service.virtual_ip is None:
        return None
    wanted = VirtualIp(service.virtual_ip.address, service.virtual_ip.interface)
    standby = service.standby.address if wanted.ip.version == 4 else service.standby.address6
    return wanted, str(standby)


def take(service: Service, clock: Clock) -> list[str]:
    """Has this machine show the address, if the service has one; a summary for the timeline.

    Raises ExternalError when somebody else has it, or this machine cannot take it.
    """
    if (found := _of(service)) is None:
        return []
    wanted, standby = found
    virtual_ip.take(wanted, standby, clock)
    return [f"{wanted} -> {standby}"]


def is_here(service: Service) -> bool:
    """Whether this machine has the address; True where the service has none."""
    return (found := _of(service)) is None or virtual_ip.holds(*found)


def keep(service: Service, clock: Clock) -> bool:
    """Takes the address again if this machine has lost it, as after a restart; whether it had to."""
    if (found := _of(service)) is None or virtual_ip.holds(*found):
        return False
    virtual_ip.take(*found, clock)
    return True


def give_up(service: Service) -> None:
    """Raises ExternalError when the address cannot be taken off."""
    if (found := _of(service)) is not None:
        virtual_ip.give_up(found[0])
