"""What the controller itself costs: `python -m recovery_bench.overhead`.

The real program (`vcrecovery failover --host`: start of Python, imports, plan, locks, journal with an fsync for each
step, threads, output) fails services over whose containers start at once, whose ports are open at once, and which have
no DNS names. What is measured is its wall time from its start as a process to its end, and nothing is taken off: it is
all overhead, with what the loopback's probes, libvirtd and the simulated LXD take of the same CPUs. The same once more
with a DNS name for each service, which BIND serves, is shown beside it. Other work on the machine counts, too: the CPU
time of the program alone tells how much that was.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from exclude_bench.command import Benchmark
from exclude_bench.target import Target
from relay_bench.results import section, verdicts
from vcrecovery.core.episode import Outcome, Step
from vcrecovery.store.journal import Journal

from .overhead_site import fail_over, site

#: Services -> seconds.
LIMITS = {4: 0.2, 200: 2.0}
#: What ends each part of a run: its last such step.
_PARTS = {
    "confirm": Step.CONFIRM,
    "fence": Step.FENCE,
    "start, with the gate": Step.START,
    "probe": Step.PROBE,
    "switch": Step.SWITCH,
    "verify": Step.VERIFY,
}


@dataclass(frozen=True)
class Overhead:
    """Seconds of each round. `parts` follow each other, and have the medians: each goes on until the last service has
    done that step, so what the services do at the same time counts for the part that ends later.
    """

    services: int
    whole: tuple[float, ...]
    with_dns: tuple[float, ...]
    parts: Mapping[str, float]
    parts_with_dns: Mapping[str, float]
    cpu: tuple[float, ...]
    """The CPU time of the program alone: the wall time counts what else the machine does."""
    cpu_with_dns: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.whole)

    @property
    def spread(self) -> tuple[float, float]:
        return min(self.whole), max(self.whole)


def measure_overhead(folder: Path, services: int, rounds: int) -> Overhead:
    """Fails `services` services over, `rounds` times without and with DNS. `folder` is on a disk: the journal is there.

    Raises LabError when a failover did not go well.
    """
    whole: dict[bool, list[float]] = {False: [], True: []}
    parts: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    cpu: dict[bool, list[float]] = {False: [], True: []}
    with site(folder, services) as made:
        # Compiles what an installed program has compiled.
        with made.fresh("first", with_dns=True) as plan:
            fail_over(plan, folder / "compiled")
        for number in range(rounds):
            for with_dns in (False, True):
                name = f"r{number}-{'dns' if with_dns else 'no'}"
                with made.fresh(name, with_dns=with_dns) as plan:
                    begun_at = time.time()
                    seconds, used = fail_over(plan, folder / "compiled")
                whole[with_dns].append(seconds)
                cpu[with_dns].append(used)
                parts[with_dns].append(_parts(folder / name / "state/journal.db", services, begun_at, seconds))
    return Overhead(
        services,
        tuple(whole[False]),
        tuple(whole[True]),
        _medians(parts[False]),
        _medians(parts[True]),
        tuple(cpu[False]),
        tuple(cpu[True]),
    )


def _parts(journal: Path, services: int, begun_at: float, seconds: float) -> dict[str, float]:
    """What a run's time went into."""
    episodes = Journal(journal).history(limit=services + 1)
    done = [episode for episode in episodes if episode.outcome is Outcome.DONE]
    assert len(done) == services  # noqa: S101  or the command would have failed
    ends = {"start of the program, plan": min(episode.opened_at for episode in done)}
    for part, step in _PARTS.items():
        found = [record.ended_at or 0.0 for episode in done for record in episode.steps if record.step is step]
        if found:
            ends[part] = max(found)
    ends["end of the program"] = begun_at + seconds
    lengths, before = {}, begun_at
    for part, end in ends.items():
        lengths[part], before = end - before, end
    return lengths


def _medians(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {part: statistics.median(entry[part] for entry in rounds) for part in rounds[0]}


@dataclass(frozen=True)
class Results:
    measured: list[Overhead]
    targets: list[Target]


def overhead_targets(measured: Sequence[Overhead]) -> list[Target]:
    return [
        Target(f"controller overhead, {x.services} services: median", x.median, LIMITS[x.services], "s", at_most=True)
        for x in measured
        if x.services in LIMITS
    ]


def overhead_text(measured: Sequence[Overhead]) -> str:
    """A table for each number of services."""
    found = []
    for entry in measured:
        rows = [("whole, median", f"{entry.median:.3f}", f"{statistics.median(entry.with_dns):.3f}")]
        for word, pick in (("lowest", min), ("highest", max)):
            rows.append((f"whole, {word}", f"{pick(entry.whole):.3f}", f"{pick(entry.with_dns):.3f}"))
        cpu = (statistics.median(entry.cpu), statistics.median(entry.cpu_with_dns))
        rows.append(("CPU time of the program, median", f"{cpu[0]:.3f}", f"{cpu[1]:.3f}"))
        for part, seconds in entry.parts_with_dns.items():
            without = f"{entry.parts[part]:.3f}" if part in entry.parts else ""
            rows.append((f"  {part}", without, f"{seconds:.3f}"))
        title = f"Controller overhead, {entry.services} services, {len(entry.whole)} times each, seconds"
        found.append(section(title, ("", "without DNS", "with BIND"), rows))
    return "\n".join(found)


def _measured(folder: Path, quick: bool, _seed: int) -> Results:
    measured = []
    for services in LIMITS:
        place = folder / str(services)
        place.mkdir()
        measured.append(measure_overhead(place, services, 1 if quick else 5))
    return Results(measured, overhead_targets(measured))


def _text(results: Results) -> str:
    return overhead_text(results.measured) + "\n" + verdicts(results.targets)


def main() -> int:
    return Benchmark(
        name="recovery_bench.overhead",
        about="What the controller itself costs in a failover of several services.",
        seed_of="nothing: nothing is drawn by lot here",
        measure=_measured,
        text=_text,
        work_help="for the journals; on a disk, or their fsync costs nothing",
        work=Path(tempfile.gettempdir()),
    ).main()


if __name__ == "__main__":
    sys.exit(main())
