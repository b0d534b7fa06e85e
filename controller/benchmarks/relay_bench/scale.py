"""How many hypervisors, and how long."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Counts; durations are seconds."""

    hypervisors: int
    guests: int
    """Of each hypervisor."""
    poll: float
    polls: int
    """That are measured."""
    notifications: int
    storm_seconds: float


FULL = Scale(hypervisors=50, guests=20, poll=5.0, polls=8, notifications=100, storm_seconds=10.0)
QUICK = Scale(hypervisors=3, guests=20, poll=1.0, polls=3, notifications=10, storm_seconds=2.0)
