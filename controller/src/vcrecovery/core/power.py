"""The state of a VM, and libvirt's words for why it is off."""

from __future__ import annotations

from enum import StrEnum


class Power(StrEnum):
    """The state of a VM, in libvirt's words; `absent` and `unreachable` are ours."""

    RUNNING = "running"
    PAUSED = "paused"
    SHUTOFF = "shutoff"
    CRASHED = "crashed"
    ABSENT = "absent"
    UNREACHABLE = "unreachable"


#: A VM in one of these states runs nothing.
OFF = frozenset({Power.SHUTOFF, Power.CRASHED})
#: libvirt's reasons for which a VM is off by somebody's wish.
ASKED = frozenset({"shutdown", "destroyed", "saved", "migrated", "from snapshot"})
#: Those of them that a fence leads to.
ENDED_BY_A_FENCE = frozenset({"shutdown", "destroyed"})


def may_run_elsewhere(power: Power, reason: str) -> bool:
    """Whether a VM that its hypervisor has not, or not any more, may run on another one: nobody starts it then."""
    return power is Power.ABSENT or (power in OFF and reason == "migrated")
