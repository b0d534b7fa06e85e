"""The virtual address that follows a service: taken while the standby serves, given up when the primary does again."""

from __future__ import annotations

from vcrecovery.drivers.virtual_ip import VirtualIp
from vcrecovery.operations.environment import Environment
from vcrecovery.plan.model import Service


def _of(service: Service) -> tuple[VirtualIp, str] | None:
    """The address, and where in the standby it leads to."""
    if service.virtual_ip is None:
        return None
    wanted = VirtualIp(service.virtual_ip.address, service.virtual_ip.interface)
    standby = service.standby.address if wanted.ip.version == 4 else service.standby.address6
    return wanted, str(standby)


def take(env: Environment, service: Service) -> list[str]:
    """Has this machine show the address, if the service has one; a summary for the timeline.

    Raises ExternalError when somebody else has it, or this machine cannot take it.
    """
    if (found := _of(service)) is None:
        return []
    wanted, standby = found
    env.virtual_ips.take(wanted, standby, env.clock)
    return [f"{wanted} -> {standby}"]


def is_here(env: Environment, service: Service) -> bool:
    """Whether this machine has the address; True where the service has none."""
    return (found := _of(service)) is None or env.virtual_ips.holds(*found)


def keep(env: Environment, service: Service) -> bool:
    """Takes the address again if this machine has lost it, as after a restart; whether it had to."""
    if (found := _of(service)) is None or env.virtual_ips.holds(*found):
        return False
    env.virtual_ips.take(*found, env.clock)
    return True


def give_up(env: Environment, service: Service) -> None:
    """Raises ExternalError when the address cannot be taken off."""
    if (found := _of(service)) is not None:
        env.virtual_ips.give_up(found[0])
