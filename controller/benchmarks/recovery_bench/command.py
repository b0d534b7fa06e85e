"""What the commands of these benchmarks have in common."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from exclude_bench.command import Benchmark, Results


def main_of(
    name: str, about: str, measure: Callable[[Path, bool, int], Results], text: Callable[[Results], str]
) -> int:
    """The exit status; see `Benchmark`."""
    return Benchmark(
        name=name,
        about=about,
        seed_of="nothing: nothing is drawn by lot here",
        measure=measure,
        text=text,
        work_help="for the VMs' disks, and the journal: a real disk",
        work=Path("/var/tmp"),  # noqa: S108  a folder of its own is made in it
    ).main()
