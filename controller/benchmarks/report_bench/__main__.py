"""`python -m report_bench`: makes a long journal, reports on it, and says how long that took; see --help."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from exclude_bench.command import Benchmark
from exclude_bench.target import Target
from relay_bench.results import section, verdicts

from .long_journal import SERVICES, YEARS, lay_out

SECONDS, MEGABYTES = 10.0, 300.0


@dataclass(frozen=True)
class Run:
    """One call of `vcrecovery report`."""

    since: str
    seconds: float
    cpu: float
    megabytes: float


@dataclass(frozen=True)
class Results:
    episodes: int
    journal_mb: float
    freshness_mb: float
    runs: list[Run]
    targets: list[Target]


def _run(plan: Path, since: str, folder: Path) -> Run:
    words = [sys.executable, "-m", "vcrecovery", "report", "--since", since, "--within", "1"]
    words += ["--plan", str(plan), "--output", str(folder / "reports")]
    begun = time.monotonic()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise OSError(f"vcrecovery report --since {since} ended with status {process.returncode}")
    return Run(since, time.monotonic() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def _measured(folder: Path, quick: bool, _seed: int) -> Results:
    episodes = 10_000 if quick else 1_000_000
    plan = lay_out(folder, episodes, time.time())
    # Once for what it leaves in caches, such as matplotlib's fonts.
    _run(plan, "1d", folder)
    runs = [_run(plan, since, folder) for since in ("30d", "365d", "3650d")]
    state = folder / "state"
    slowest, biggest = max(run.seconds for run in runs), max(run.megabytes for run in runs)
    targets = [
        Target("the slowest report", slowest, SECONDS, "s", at_most=True, must=True),
        Target("the most memory", biggest, MEGABYTES, "MB", at_most=True, must=True),
    ]
    journal_mb, freshness_mb = ((state / name).stat().st_size / 1e6 for name in ("journal.db", "freshness.db"))
    return Results(episodes, journal_mb, freshness_mb, runs, targets)


def _text(results: Results) -> str:
    title = f"{results.episodes:,} episodes of {SERVICES} services in {YEARS} years: a journal of "
    title += f"{results.journal_mb:.0f} MB, and {results.freshness_mb:.0f} MB of 400 days' freshness"
    rows = [
        (f"--since {run.since}", f"{run.seconds:.2f} s", f"{run.cpu:.2f} s", f"{run.megabytes:.0f} MB")
        for run in results.runs
    ]
    return "\n".join([section(title, ("report", "took", "of that CPU", "memory"), rows), verdicts(results.targets)])


def main() -> int:
    return Benchmark(
        name="report_bench",
        about="How long a report takes over a long journal, with its charts, and how much memory.",
        seed_of="nothing: what is made is always the same",
        measure=_measured,
        text=_text,
        work_help="for the journal of about 2 GB",
    ).main()


if __name__ == "__main__":
    sys.exit(main())
