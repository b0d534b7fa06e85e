"""Where whoever serves a service is to be asked."""

from __future__ import annotations

from vcrecovery.core.service_state import Side
from vcrecovery.drivers.probe import Target
from vcrecovery.plan.model import Service


def targets(service: Service, side: Side) -> list[Target]:
    """Every port, at each address of that side."""
    serving = service.primary if side is Side.PRIMARY else service.standby
    addresses = [str(address) for address in (serving.address, serving.address6) if address]
    return [(address, port) for address in addresses for port in service.ports]
