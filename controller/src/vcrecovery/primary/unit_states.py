"""What systemd says of the units behind the service's ports: a VM tells by its heartbeat that they have failed."""

from __future__ import annotations

from typing import Dict, Optional, Sequence

from .programs import ProgramError, Run

#: systemd answers at once, or hangs.
_SECONDS = 5.0


def system_state(run: Run) -> str:
    """Of the whole machine: initializing, starting, running, degraded, stopping, ...; empty if nobody knows."""
    try:
        return run(["systemctl", "show", "--property=SystemState"], _SECONDS).strip().rpartition("=")[2]
    except ProgramError:
        return ""


def unit_states(units: Sequence[str], run: Run) -> Optional[Dict[str, str]]:
    """Of those that are not active, in systemd's words (failed, inactive, activating, ...); None if nobody knows."""
    if not units:
        return None
    try:
        printed = run(["systemctl", "show", "--property=Id,ActiveState", "--", *units], _SECONDS)
    except ProgramError:
        return None
    found: Dict[str, str] = {}
    for block in printed.strip().split("\n\n"):
        said = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if said.get("ActiveState", "active") != "active" and "Id" in said:
            found[said["Id"]] = said["ActiveState"]
    return found
