"""`python -m health_bench`: measures everything and prints it; see --help."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from exclude_bench.command import Benchmark
from exclude_bench.target import Target
from relay_bench.results import section, verdicts

from .measure import FULL, QUICK, Measured, Scale, measure
from .stage_again import Again, again

CORES, NOTICED = 0.3, 6.0
#: Of a failover, that a container which has ended takes. LXD tells of its end after 0.8 s and gets 0.5 s to start it by
#: itself, and the first packet to what has just been there is lost, which costs TCP a second.
RATIO = 3.0


@dataclass(frozen=True)
class Results:
    scale: Scale
    measured: Measured
    again: Again
    targets: list[Target]


def _measured(folder: Path, quick: bool, seed: int) -> Results:
    scale = QUICK if quick else FULL
    found = measure(scale, folder, seed)
    (folder / "again").mkdir()
    restarted = again(folder / "again", scale.rounds)
    targets = [
        Target(f"{scale.services:,} services every 5 s: CPU", found.cores, CORES, "cores", at_most=True),
        Target("closed port to verdict, the latest", max(found.noticed), NOTICED, "s", at_most=True),
        Target("container killed to answers again, of a failover", restarted.ratio, RATIO, "", at_most=True),
    ]
    return Results(scale, found, restarted, targets)


def _text(results: Results) -> str:
    found = results.measured
    rows = [
        ("CPU, cores", f"{found.cores:.3f}"),
        ("answers per second", f"{found.answers_per_second:.0f}"),
        ("threads, descriptors, at most", f"{found.threads}, {found.descriptors}"),
        ("memory, RSS MB", f"{found.memory_mb:.0f}"),
        (
            f"closed port to verdict, s: median (range) of {len(found.noticed)}",
            f"{found.median:.2f} ({min(found.noticed):.2f}-{max(found.noticed):.2f})",
        ),
    ]
    times = [
        (f"{what}, s: median (range) of {len(took)}", f"{median(took):.2f} ({min(took):.2f}-{max(took):.2f})")
        for what, took in (
            ("failover, command to answer", results.again.failovers),
            ("container killed to answer", results.again.restarts),
        )
    ]
    title = f"{results.scale.services:,} services asked every 5 s, one TCP port each, for {results.scale.seconds:g} s"
    return "\n".join(
        [
            section(title, ("", ""), rows),
            section("A standby that serves and ends, in a real LXD", ("", ""), times),
            verdicts(results.targets),
        ]
    )


def main() -> int:
    return Benchmark(
        name="health_bench",
        about="What it costs to ask whoever serves all the time, and how soon an outage is noticed.",
        seed_of="the moments at which services cease to answer",
        measure=_measured,
        text=_text,
        work_help="for the journal",
    ).main()


if __name__ == "__main__":
    sys.exit(main())
