"""From two readings of a secondary to how loaded it is, and by whom. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vcrecovery.balance.amounts import Amounts


@dataclass(frozen=True)
class ContainerReading:
    """`cpu`: seconds of CPU since its start. `started_at`: by LXD, in seconds since the epoch."""

    cpu: float
    memory: int
    disk: int = 0
    started_at: float = 0.0


@dataclass(frozen=True)
class MachineReading:
    """What only the machine itself tells. `busy`: seconds of CPU since its boot, over all cores; `stolen`: of these,
    those that its hypervisor gave to others. `pressure`: per cent of the last minute in which somebody waited for it.
    """

    busy: float
    stolen: float
    pressure: Mapping[str, float]


@dataclass(frozen=True)
class Reading:
    """Of a secondary, at the steady time `at`. `free`: bytes of its pool; `machine`: None where it is another one."""

    at: float
    cores: int
    memory: int
    memory_used: int
    pool: int
    free: int
    containers: Mapping[str, ContainerReading]
    machine: MachineReading | None = None


@dataclass(frozen=True)
class Load:
    """`containers`: those of which it is known. `whole`: the CPU is the machine's, and not only its containers'.

    `stolen`: cores that its hypervisor gave to others meanwhile.
    """

    size: Amounts
    used: Amounts
    containers: Mapping[str, Amounts] = field(default_factory=dict)
    whole: bool = False
    stolen: float = 0.0
    pressure: Mapping[str, float] = field(default_factory=dict)

    @property
    def shares(self) -> Amounts:
        """Of what it has, from 0 to 1."""
        return Amounts(*(own / whole if whole else 0.0 for own, whole in zip(self.used, self.size, strict=True)))


def load_between(before: Reading, after: Reading) -> Load | None:
    """None where the two do not belong together: a clock, or a machine, that began anew."""
    seconds = after.at - before.at
    if seconds <= 0 or after.cores != before.cores or after.cores <= 0:
        return None
    containers = {}
    for name, now in after.containers.items():
        then = before.containers.get(name)
        if then is not None and then.started_at == now.started_at and now.cpu >= then.cpu:
            containers[name] = Amounts((now.cpu - then.cpu) / seconds, float(now.memory), float(now.disk))
    cpu, stolen, pressure = sum(own.cpu for own in containers.values()), 0.0, {}
    whole = before.machine is not None and after.machine is not None
    if before.machine is not None and after.machine is not None:
        cpu = (after.machine.busy - before.machine.busy) / seconds
        stolen = (after.machine.stolen - before.machine.stolen) / seconds
        pressure = dict(after.machine.pressure)
        if cpu < 0:
            return None
    size = Amounts(float(after.cores), float(after.memory), float(after.pool))
    used = Amounts(min(cpu, float(after.cores)), float(after.memory_used), float(after.pool - after.free))
    return Load(size, used, containers, whole, max(0.0, stolen), pressure)
