"""`python -m balance_bench`: chooses moves in ever larger data centres, and says how long that takes; see --help."""

from __future__ import annotations

import random
import sys
import time
from dataclasses import dataclass
from math import log
from pathlib import Path
from statistics import median

from exclude_bench.command import Benchmark
from exclude_bench.target import Target
from relay_bench.results import section, verdicts
from vcrecovery.balance.amounts import Amounts
from vcrecovery.balance.choice import Container, Machine, choose

_GIB = float(1 << 30)
_SIZE, _TARGETS = Amounts(6.0, 16 * _GIB, 100 * _GIB), Amounts(0.7, 0.8, 0.9)
#: Containers of each secondary, the share of the overloaded, and where each container may go.
_EACH, _OVERLOADED, _PLACES = 25, 0.3, 3
#: For which there is a limit: 5,000 containers within a second.
_LIMITED, _SECONDS = 200, 1.0
_REPEATS = 5


@dataclass(frozen=True)
class Run:
    """Of one size. `seconds`: of each repeat."""

    secondaries: int
    containers: int
    overloaded: int
    moves: int
    seconds: list[float]


@dataclass(frozen=True)
class Results:
    runs: list[Run]
    targets: list[Target]


def _case(secondaries: int, rng: random.Random) -> tuple[list[Machine], list[Container], list[str]]:
    names = [f"sec{number}" for number in range(secondaries)]
    busy = set(rng.sample(names, int(secondaries * _OVERLOADED)))
    containers, used = [], {name: Amounts(0.1, 0.3 * _GIB) for name in names}
    for number in range(secondaries * _EACH):
        on = names[number % secondaries]
        cpu = rng.uniform(0.02, 0.2) * (3 if on in busy else 1)
        uses = Amounts(cpu, rng.uniform(0.05, 0.2) * _GIB, rng.uniform(0.1, 2.0) * _GIB)
        places = tuple(place for place in rng.sample(names, _PLACES) if place != on)
        containers.append(Container(f"c{number}", on, uses, places, uses.disk, 2.0))
        used[on] = used[on].plus(uses)
    machines = [Machine(name, _SIZE, used[name]) for name in names]
    return machines, containers, [own.name for own in machines if not _SIZE.times(_TARGETS).holds(own.used)]


def _run(secondaries: int, seed: int) -> Run:
    machines, containers, relieve = _case(secondaries, random.Random(seed))
    seconds, moves = [], 0
    for _ in range(_REPEATS):
        begun = time.perf_counter()
        moves = len(choose(machines, containers, _TARGETS, relieve).moves)
        seconds.append(time.perf_counter() - begun)
    return Run(secondaries, len(containers), len(relieve), moves, seconds)


def _growth(runs: list[Run]) -> float:
    """By how much the time grows faster than n log n, from half of the largest size to it; 1: just so."""
    before, last = runs[-2], runs[-1]
    wanted = last.containers * log(last.containers) / (before.containers * log(before.containers))
    return median(last.seconds) / median(before.seconds) / wanted


def _measured(_folder: Path, quick: bool, seed: int) -> Results:
    sizes = (50, 100, 200) if quick else (50, 100, 200, 400, 800, 1600)
    runs = [_run(size, seed) for size in sizes]
    limited = next(run for run in runs if run.secondaries == _LIMITED)
    targets = [
        Target(f"{limited.containers:,} containers", median(limited.seconds), _SECONDS, "s", at_most=True, must=True),
        # Of one doubling on a noisy machine.
        Target("time of the last doubling, against n log n", _growth(runs), 1.3, "", at_most=True),
    ]
    return Results(runs, targets)


def _text(results: Results) -> str:
    rows = [
        (
            f"{run.secondaries:,}",
            f"{run.containers:,}",
            f"{run.overloaded:,}",
            f"{run.moves:,}",
            f"{median(run.seconds):.3f} s ({min(run.seconds):.3f} to {max(run.seconds):.3f})",
        )
        for run in results.runs
    ]
    heads = ("secondaries", "containers", "overloaded", "moves", f"median of {_REPEATS}")
    return "\n".join(
        [
            section("What leaves overloaded secondaries, and where it goes", heads, rows),
            verdicts(results.targets),
        ]
    )


def main() -> int:
    return Benchmark(
        name="balance_bench",
        about="How long it takes to choose what leaves overloaded secondaries, by how many there are.",
        seed_of="the loads",
        measure=_measured,
        text=_text,
        work_help="which it does not need",
    ).main()


if __name__ == "__main__":
    sys.exit(main())
