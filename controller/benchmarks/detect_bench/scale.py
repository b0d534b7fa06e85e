"""How often, and how long."""

from __future__ import annotations

from dataclasses import dataclass

from vcrecovery.plan.monitoring import Detection


@dataclass(frozen=True)
class Scale:
    """Durations are seconds."""

    kills: int
    """Of a VM's QEMU, by each way."""
    hangs: int
    window: float
    """For how long a CPU must stand still, or be busy: the plan's cpu_zero_for and cpu_high_for."""
    idle: float
    """For how long an idle guest is looked at."""


#: At the plan's default.
FULL = Scale(kills=15, hangs=5, window=Detection().cpu_zero_for, idle=600.0)
QUICK = Scale(kills=2, hangs=1, window=15.0, idle=10.0)
