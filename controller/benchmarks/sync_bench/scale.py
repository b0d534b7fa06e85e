"""How large and how long everything is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Counts; durations are seconds."""

    files: int
    first_files: int
    """Files of the first syncs, which take minutes otherwise."""
    per_folder: int
    rate: float
    """Writes in a second."""
    seconds: float
    """Of writes with our configuration."""
    reconcile_seconds: float
    """Of writes with a reconcile in the middle."""
    default_seconds: float
    """Of writes with lsyncd's defaults."""
    idle_seconds: float
    runs: int
    """Of each pass."""


FULL = Scale(100_000, 20_000, 50, 10, 120, 30, 45, 30, 3)
QUICK = Scale(1_000, 500, 50, 10, 8, 5, 18, 6, 1)
