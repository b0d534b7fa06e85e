"""Loads for people and for machines. Pure."""

from __future__ import annotations

from dataclasses import asdict

from vcrecovery.balance.load import Load
from vcrecovery.core.text import size_of

#: What is less is not worth a word: of the time in which a disk is in use; of a card's speed; packets a second.
_BUSY, _SHARE, _DROPPED = 0.5, 0.5, 1.0
#: The same of a pressure, in per cent; and so many of those that use most.
_PRESSURE, _MOST = 0.5, 3


def in_use(load: Load) -> str:
    """`1.9 of 2 cores, 1.2 GiB of 4 GiB of memory`, and disks and network where they have much to do."""
    least = "" if load.whole else "at least "
    stolen = f" ({load.stolen:.1f} taken by its hypervisor)" if load.stolen is not None and load.stolen >= 0.05 else ""
    return ", ".join(
        [
            f"{least}{load.used.cpu:.1f} of {load.size.cpu:.0f} cores{stolen}",
            f"{size_of(int(load.used.memory))} of {size_of(int(load.size.memory))} of memory",
            *_devices(load),
            *([said] if (said := pressure(load)) else []),
        ]
    )


def pressure(load: Load) -> str:
    """`pressure 40 % cpu, 3 % io`; empty where nobody waited, or nobody tells."""
    found = [f"{percent:.0f} % {resource}" for resource, percent in load.pressure.items() if percent >= _PRESSURE]
    return f"pressure {', '.join(found)}" if found else ""


def who_uses_most(load: Load) -> str:
    """`web: 0.7 cores, 410 MiB of memory; db: ...`; empty where nobody runs, or that is not known."""

    def share(name: str) -> float:
        uses = load.containers[name]
        return max(own / whole if whole else 0.0 for own, whole in zip(uses[:2], load.size[:2], strict=True))

    return "; ".join(
        f"{name}: {load.containers[name].cpu:.1f} cores, {size_of(int(load.containers[name].memory))} of memory"
        for name in sorted(load.containers, key=share, reverse=True)[:_MOST]
    )


def _devices(load: Load) -> list[str]:
    found = []
    if load.disk is not None and load.disk.busy >= _BUSY:
        found.append(
            f"disk {load.disk.name} {100 * load.disk.busy:.0f} % busy, {1000 * load.disk.latency:.0f} ms for each"
            " read or write"
        )
    if load.network is not None and load.network.share is not None and load.network.share >= _SHARE:
        found.append(f"{100 * load.network.share:.0f} % of its network")
    if load.network is not None and load.network.dropped >= _DROPPED:
        found.append(f"{load.network.dropped:.0f} packets dropped each second")
    return found


def load_as_data(load: Load) -> dict[str, object]:
    """What is not known is null."""
    return {
        "cores": load.size.cpu,
        "cores_used": load.used.cpu,
        "cores_whole": load.whole,
        "cores_stolen": load.stolen,
        "memory": load.size.memory,
        "memory_used": load.used.memory,
        "pool": load.size.disk,
        "pool_used": load.used.disk,
        "pressure": dict(load.pressure),
        "disk": None if load.disk is None else asdict(load.disk),
        "network": None if load.network is None else asdict(load.network),
        "containers": {
            name: {
                "cores": own.cpu,
                "memory": own.memory,
                "disk_rate": load.traffic[name].disk if name in load.traffic else None,
                "received": load.traffic[name].received if name in load.traffic else None,
                "sent": load.traffic[name].sent if name in load.traffic else None,
            }
            for name, own in load.containers.items()
        },
    }
