"""From two readings of a secondary to how loaded it is, and by whom. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vcrecovery.balance.amounts import Amounts
from vcrecovery.balance.devices import (
    CardReading,
    DiskLoad,
    DiskReading,
    NetworkLoad,
    Traffic,
    disk_load,
    network_load,
)


@dataclass(frozen=True)
class ContainerReading:
    """`cpu`: seconds of CPU since its start. `started_at`: by LXD, in seconds since the epoch.

    `moved`: bytes that it has read from disks and written; `received` and `sent`: over its network. None: not known.
    """

    cpu: float
    memory: int
    disk: int = 0
    started_at: float = 0.0
    moved: int | None = None
    received: int | None = None
    sent: int | None = None


@dataclass(frozen=True)
class MachineReading:
    """What only the machine itself tells. `busy`: seconds of CPU since its boot, over all cores; `stolen`: of these,
    those that its hypervisor gave to others; None: not known. `pressure`: per cent of the last minute in which somebody
    waited for it. `disks` and `cards`: by name; None where the kernel does not say it.
    """

    busy: float
    stolen: float | None
    pressure: Mapping[str, float]
    disks: Mapping[str, DiskReading] | None = None
    cards: Mapping[str, CardReading] | None = None


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

    `stolen`: cores that its hypervisor gave to others meanwhile; None: not known. `seconds`: for how long that
    was looked at. `disk`, `network`: of the machine; None: not known. `traffic`: what of that each container does.
    """

    size: Amounts
    used: Amounts
    containers: Mapping[str, Amounts] = field(default_factory=dict)
    whole: bool = False
    stolen: float | None = None
    pressure: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    disk: DiskLoad | None = None
    network: NetworkLoad | None = None
    traffic: Mapping[str, Traffic] = field(default_factory=dict)

    @property
    def shares(self) -> Amounts:
        """Of what it has, from 0 to 1."""
        return Amounts(*(own / whole if whole else 0.0 for own, whole in zip(self.used, self.size, strict=True)))


def load_between(before: Reading, after: Reading) -> Load | None:
    """None where the two do not belong together: a clock, or a machine, that began anew.

    Also of a machine whose CPU only its containers tell, and one of them began anew: what it uses is not nothing.
    """
    if not belongs_to(before, after):
        return None
    seconds = after.at - before.at
    share = _true_share(after)
    containers = {
        name: Amounts((now.cpu - before.containers[name].cpu) / seconds, now.memory * share, float(now.disk))
        for name, now in after.containers.items()
        if _goes_on(before.containers.get(name), now)
    }
    traffic = {name: _traffic(before.containers[name], after.containers[name], seconds) for name in containers}
    cpu, pressure = sum(own.cpu for own in containers.values()), dict[str, float]()
    stolen, disk, network = None, None, None
    if before.machine is not None and after.machine is not None:
        cpu = (after.machine.busy - before.machine.busy) / seconds
        if before.machine.stolen is not None and after.machine.stolen is not None:
            stolen = max(0.0, (after.machine.stolen - before.machine.stolen) / seconds)
        pressure = dict(after.machine.pressure)
        disk = disk_load(before.machine.disks, after.machine.disks, seconds)
        network = network_load(before.machine.cards, after.machine.cards, seconds)
    elif len(containers) < len(after.containers):
        return None
    size = Amounts(float(after.cores), float(after.memory), float(after.pool))
    used = Amounts(min(cpu, float(after.cores)), float(after.memory_used), float(after.pool - after.free))
    whole = before.machine is not None and after.machine is not None
    return Load(size, used, containers, whole, stolen, pressure, seconds, disk, network, traffic)


def belongs_to(before: Reading, after: Reading) -> bool:
    """Whether neither the machine nor its clock began anew in between."""
    if after.at <= before.at or after.cores != before.cores or after.cores <= 0:
        return False
    return before.machine is None or after.machine is None or after.machine.busy >= before.machine.busy


def load_over(readings: Sequence[Reading]) -> Load | None:
    """Up to the newest of them, as far back as everything that runs now has run, too. None where that is no time."""
    if not readings:
        return None
    now = readings[-1].containers
    for reading in list(readings)[:-1]:
        if all(_goes_on(reading.containers.get(name), own) for name, own in now.items()):
            return load_between(reading, readings[-1])
    return None


def _goes_on(then: ContainerReading | None, now: ContainerReading) -> bool:
    return then is not None and then.started_at == now.started_at and now.cpu >= then.cpu


def _traffic(then: ContainerReading, now: ContainerReading, seconds: float) -> Traffic:
    def rate(before: int | None, after: int | None) -> float | None:
        return None if before is None or after is None or after < before else (after - before) / seconds

    return Traffic(rate(then.moved, now.moved), rate(then.received, now.received), rate(then.sent, now.sent))


def _true_share(reading: Reading) -> float:
    """Of what containers are said to use of the memory: the caches of their files are counted to them, and are none of
    what the machine has in use.
    """
    together = sum(own.memory for own in reading.containers.values())
    return min(1.0, reading.memory_used / together) if together else 1.0
