"""What a boot's time goes into, as systemd tells it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vcrecovery_lab.secondary_vm.site import UNITS


@dataclass(frozen=True)
class Boot:
    """Seconds: `systemd` until it begins with the service, `service` for its start, `before` for all before systemd."""

    before: float
    systemd: float
    service: float


def read_boot(run: Callable[[str], str], port: int, answered: float) -> Boot:
    """`run` runs a command on the machine. `answered`: seconds from the request to the service's answer."""
    unit = UNITS[port]
    names = ("UserspaceTimestampMonotonic", "InactiveExitTimestampMonotonic", "ActiveEnterTimestampMonotonic")
    shown = run(f"systemctl show -p {names[0]}; systemctl show -p {names[1]} -p {names[2]} {unit}")
    values = dict(line.split("=", 1) for line in shown.split() if "=" in line)
    began, begun, active = (int(values[name]) / 1e6 for name in names)
    return Boot(max(0.0, answered - (active - began)), begun - began, active - begun)
