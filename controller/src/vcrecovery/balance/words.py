"""Loads for people and for machines. Pure."""

from __future__ import annotations

from vcrecovery.balance.load import Load
from vcrecovery.core.text import size_of


def in_use(load: Load) -> str:
    """`1.9 of 2 cores, 1.2 GiB of 4 GiB`."""
    least = "" if load.whole else "at least "
    stolen = f" ({load.stolen:.1f} taken by its hypervisor)" if load.stolen >= 0.05 else ""
    return (
        f"{least}{load.used.cpu:.1f} of {load.size.cpu:.0f} cores{stolen}, "
        f"{size_of(int(load.used.memory))} of {size_of(int(load.size.memory))} of memory"
    )


def load_as_data(load: Load) -> dict[str, object]:
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
        "containers": {name: {"cores": own.cpu, "memory": own.memory} for name, own in load.containers.items()},
    }
