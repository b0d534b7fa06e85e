"""From a VM's state to a verdict: has it failed? Pure.

The state counts, not the event that made us look: it can be read again after a restart, and libvirt keeps with it why
a VM is off. A VM that an operator shut down or destroyed has not failed; one whose QEMU died has.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from vcrecovery.recover.states import Power, ServiceState, Side

#: libvirt's words for an end that nobody asked for. `daemon`: libvirtd came back and the QEMU process was gone.
UNASKED = frozenset({"crashed", "failed", "daemon"})


class Kind(StrEnum):
    HEALTHY = "healthy"
    FAILED = "failed"
    INTENDED = "intended"
    PAUSED = "paused"
    UNKNOWN = "unknown"
    FAILED_OVER = "failed over"
    STALE_PRIMARY = "stale primary"


@dataclass(frozen=True)
class Verdict:
    kind: Kind
    sentence: str


def judge(state: ServiceState, power: Power, reason: str, now: float) -> Verdict:
    """What `power` and libvirt's `reason` mean for a service in `state`."""
    name = state.service
    said = f"{power} ({reason})" if reason else str(power)
    if state.side is Side.STANDBY:
        if power in (Power.RUNNING, Power.PAUSED):
            return Verdict(
                Kind.STALE_PRIMARY,
                f"{name}: the old primary is {said} although the standby serves: shut it down",
            )
        return Verdict(Kind.FAILED_OVER, f"{name}: the standby serves")
    if power is Power.UNREACHABLE:
        return Verdict(Kind.UNKNOWN, f"{name}: its hypervisor does not answer")
    if power in (Power.RUNNING, Power.PAUSED):
        return Verdict(Kind.HEALTHY, f"{name}: the primary is {said}")
    if state.pause is not None and state.pause.holds(now):
        return Verdict(Kind.PAUSED, f"{name}: the primary is {said}, and the service is paused: no failure")
    if state.seen_running_at is None:
        return Verdict(Kind.UNKNOWN, f"{name}: the primary is {said} and was never seen running: not a failure yet")
    if power is Power.ABSENT and reason not in UNASKED:
        return Verdict(Kind.UNKNOWN, f"{name}: its hypervisor does not know the VM: look at the plan")
    if power is Power.CRASHED or reason in UNASKED:
        return Verdict(Kind.FAILED, f"{name}: the primary is {said}")
    return Verdict(Kind.INTENDED, f"{name}: the primary is {said}: somebody asked for that, no failure")
