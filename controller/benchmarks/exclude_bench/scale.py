"""How large everything is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Counts; durations are seconds."""

    kernel_files: int
    """Files of the generated kernel packages."""
    synced_files: int
    """At least so many files are left to be synced."""
    system_packages: int | None
    """So many of the machine's own packages are taken; None: all."""
    list_runs: int
    """Runs of each way to make a list."""
    database_packages: int
    database_paths: int
    """The second, synthetic database; the kernel's packages are among these."""
    rsync_rounds: int
    """Runs of rsync with each list and each scenario."""
    naive_seconds: float
    """The naive list gets fewer rounds if they would take longer than this together, but one at least."""
    watched_directories: int
    events: int
    """Write events that lsyncd gets with each list."""
    naive_events: int
    """The same with the naive list, in one round alone: lsyncd needs minutes to start with it."""
    lsyncd_rounds: int


FULL = Scale(
    kernel_files=30_000,
    synced_files=205_000,
    system_packages=None,
    list_runs=7,
    database_packages=1_000,
    database_paths=500_000,
    rsync_rounds=5,
    naive_seconds=360,
    watched_directories=2_000,
    events=8_000,
    naive_events=200,
    lsyncd_rounds=3,
)

QUICK = Scale(
    kernel_files=600,
    synced_files=2_500,
    system_packages=60,
    list_runs=2,
    database_packages=50,
    database_paths=5_000,
    # With one alone, a list often costs nothing that can be measured.
    rsync_rounds=3,
    naive_seconds=10,
    watched_directories=40,
    events=200,
    naive_events=100,
    lsyncd_rounds=1,
)
