"""What a hypervisor says of its VMs, and libvirt's numbers in words."""

from __future__ import annotations

from dataclasses import dataclass

import libvirt

from vcrecovery.core.domain import DomainReading
from vcrecovery.core.power import Power

POWER = {
    libvirt.VIR_DOMAIN_RUNNING: Power.RUNNING,
    libvirt.VIR_DOMAIN_BLOCKED: Power.RUNNING,
    libvirt.VIR_DOMAIN_SHUTDOWN: Power.RUNNING,
    libvirt.VIR_DOMAIN_PAUSED: Power.PAUSED,
    libvirt.VIR_DOMAIN_PMSUSPENDED: Power.PAUSED,
    libvirt.VIR_DOMAIN_SHUTOFF: Power.SHUTOFF,
    libvirt.VIR_DOMAIN_CRASHED: Power.CRASHED,
}
#: Each state has its own reasons, all counted from 0. Those that change nothing about what is done have no word.
REASON = {
    libvirt.VIR_DOMAIN_SHUTOFF: {
        libvirt.VIR_DOMAIN_SHUTOFF_SHUTDOWN: "shutdown",
        libvirt.VIR_DOMAIN_SHUTOFF_DESTROYED: "destroyed",
        libvirt.VIR_DOMAIN_SHUTOFF_CRASHED: "crashed",
        libvirt.VIR_DOMAIN_SHUTOFF_MIGRATED: "migrated",
        libvirt.VIR_DOMAIN_SHUTOFF_SAVED: "saved",
        libvirt.VIR_DOMAIN_SHUTOFF_FAILED: "failed",
        libvirt.VIR_DOMAIN_SHUTOFF_FROM_SNAPSHOT: "from snapshot",
        libvirt.VIR_DOMAIN_SHUTOFF_DAEMON: "daemon",
    },
    libvirt.VIR_DOMAIN_PAUSED: {
        libvirt.VIR_DOMAIN_PAUSED_MIGRATION: "migration",
        libvirt.VIR_DOMAIN_PAUSED_SAVE: "saving",
        libvirt.VIR_DOMAIN_PAUSED_DUMP: "dump",
        libvirt.VIR_DOMAIN_PAUSED_IOERROR: "I/O error",
        libvirt.VIR_DOMAIN_PAUSED_WATCHDOG: "watchdog",
        libvirt.VIR_DOMAIN_PAUSED_FROM_SNAPSHOT: "from snapshot",
        libvirt.VIR_DOMAIN_PAUSED_SHUTTING_DOWN: "shutting down",
        libvirt.VIR_DOMAIN_PAUSED_SNAPSHOT: "snapshot",
        libvirt.VIR_DOMAIN_PAUSED_CRASHED: "crashed",
        libvirt.VIR_DOMAIN_PAUSED_STARTING_UP: "starting up",
        libvirt.VIR_DOMAIN_PAUSED_POSTCOPY: "post-copy",
        libvirt.VIR_DOMAIN_PAUSED_POSTCOPY_FAILED: "post-copy failed",
        # VIR_DOMAIN_PAUSED_API_ERROR, which libvirt 9 does not have yet
        14: "API error",
    },
    libvirt.VIR_DOMAIN_CRASHED: {libvirt.VIR_DOMAIN_CRASHED_PANICKED: "panicked"},
}
#: States that are told as another one, with a reason of ours.
_TOLD_AS = {
    libvirt.VIR_DOMAIN_SHUTDOWN: "shutting down",
    libvirt.VIR_DOMAIN_PMSUSPENDED: "suspended by the guest",
}
STOPPED = {
    libvirt.VIR_DOMAIN_EVENT_STOPPED_SHUTDOWN: "shutdown",
    libvirt.VIR_DOMAIN_EVENT_STOPPED_DESTROYED: "destroyed",
    libvirt.VIR_DOMAIN_EVENT_STOPPED_CRASHED: "crashed",
    libvirt.VIR_DOMAIN_EVENT_STOPPED_MIGRATED: "migrated",
    libvirt.VIR_DOMAIN_EVENT_STOPPED_SAVED: "saved",
    libvirt.VIR_DOMAIN_EVENT_STOPPED_FAILED: "failed",
    libvirt.VIR_DOMAIN_EVENT_STOPPED_FROM_SNAPSHOT: "from snapshot",
}
#: libvirt's words for lifecycle events, and for their causes (`virsh event` prints the same).
EVENT = {
    libvirt.VIR_DOMAIN_EVENT_DEFINED: ("defined", ("added", "updated", "renamed", "from snapshot")),
    libvirt.VIR_DOMAIN_EVENT_UNDEFINED: ("undefined", ("removed", "renamed")),
    libvirt.VIR_DOMAIN_EVENT_STARTED: ("started", ("booted", "migrated", "restored", "from snapshot", "wakeup")),
    libvirt.VIR_DOMAIN_EVENT_SUSPENDED: (
        "suspended",
        (
            "paused",
            "migrated",
            "I/O error",
            "watchdog",
            "restored",
            "from snapshot",
            "API error",
            "post-copy",
            "post-copy error",
        ),
    ),
    libvirt.VIR_DOMAIN_EVENT_RESUMED: ("resumed", ("unpaused", "migrated", "from snapshot", "post-copy")),
    libvirt.VIR_DOMAIN_EVENT_STOPPED: ("stopped", tuple(STOPPED.values())),
    libvirt.VIR_DOMAIN_EVENT_SHUTDOWN: ("shutdown", ("finished", "guest", "host")),
    libvirt.VIR_DOMAIN_EVENT_PMSUSPENDED: ("pmsuspended", ("memory", "disk")),
    libvirt.VIR_DOMAIN_EVENT_CRASHED: ("crashed", ("panicked", "crashloaded")),
}


@dataclass(frozen=True)
class Guest:
    """A VM as a hypervisor lists it. `state` is libvirt's number, memory is in KiB, CPU time in ns."""

    uuid: str
    name: str
    state: int
    vcpus: int = 0
    memory: int = 0
    memory_limit: int = 0
    cpu_time: int = 0
    reason: str = ""
    starts_by_itself: str = ""

    @property
    def reading(self) -> DomainReading:
        return DomainReading(POWER.get(self.state, Power.RUNNING), self.reason, "", self.starts_by_itself)


def reason_of(state: int, reason: int) -> str:
    """libvirt's word for why a VM is off or paused; empty for none, and for reasons that a newer libvirt may have."""
    return _TOLD_AS.get(state) or REASON.get(state, {}).get(reason, "")


def words_of(event: int, detail: int) -> tuple[str, str]:
    """libvirt's words for a lifecycle event. Numbers of newer libvirts, which have none here, stay numbers."""
    word, details = EVENT.get(event, (str(event), ()))
    return word, details[detail] if 0 <= detail < len(details) else str(detail)
