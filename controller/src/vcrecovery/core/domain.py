"""What a hypervisor says of one VM: its state, what it uses, what has happened to it."""

from __future__ import annotations

from dataclasses import dataclass

from vcrecovery.core.power import Power


@dataclass(frozen=True)
class DomainReading:
    """What a hypervisor says of one VM. `reason` is libvirt's own word for why it is off or paused.

    `starts_by_itself`: how its hypervisor will start a VM that is off for no known reason, which it does some time
    after its own start; empty if it will not.
    """

    power: Power
    reason: str = ""
    detail: str = ""
    starts_by_itself: str = ""

    def __str__(self) -> str:
        return f"{self.power} ({self.reason})" if self.reason else str(self.power)


@dataclass(frozen=True)
class DomainUsage:
    """The same, with the CPU time that the VM has used so far, in nanoseconds over all its vCPUs."""

    reading: DomainReading
    cpu_time: int = 0
    vcpus: int = 0


@dataclass(frozen=True)
class Destroyed:
    """What a destroy did. `ended`: the VM was there, and active; `starts_with_host`: it was set to, and is not now."""

    ended: bool = False
    starts_with_host: bool = False


@dataclass(frozen=True)
class DomainEvent:
    """A lifecycle event of a VM. A hint: what counts is the state that is read after it."""

    uuid: str
    stopped: bool
    reason: str
    name: str = ""
    #: libvirt's own words for what happened, and why: stopped, crashed.
    event: str = ""
    detail: str = ""
