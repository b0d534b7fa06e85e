"""`make mutants`: how many small faults in the code that matters a test notices."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from exclude_bench.command import Benchmark
from exclude_bench.target import Target
from relay_bench.results import section
from vcrecovery_lab.progress import stderr_progress

from .outcome import KNOWN, Change, Score, change_of, known, mutants_of, scores, total
from .place import BROKEN, QUICK, install, mutmut, prepare

#: Percent of those that are not equivalent.
WANTED = 95.0


@dataclass(frozen=True)
class Results:
    by_module: Mapping[str, Score]
    unexplained: Sequence[Change]
    minutes: float
    targets: Sequence[Target]


def _measured(folder: Path, quick: bool, _seed: int) -> Results:
    reasons = known(KNOWN.read_text())
    install()
    controller, begun = prepare(folder, QUICK if quick else BROKEN), time.monotonic()
    with stderr_progress("breaking the code, one line at a time (an hour or two; --quick: ten minutes)"):
        mutmut(controller, "run", "--max-children", str(os.cpu_count() or 1))
    minutes = (time.monotonic() - begun) / 60
    found = mutants_of(mutmut(controller, "results", "--all", "true"))
    with stderr_progress("what stays"):
        left = {one.name: change_of(one, mutmut(controller, "show", one.name)) for one in found if not one.noticed}
    by_module = scores(found, left, reasons)
    explained = {one.change for one in reasons}
    unexplained = [change for change in left.values() if change not in explained]
    target = Target("noticed of what is not equivalent", total(by_module).share, WANTED, "%", at_most=False)
    return Results(by_module, unexplained, minutes, [target])


def text(results: Results) -> str:
    rows = [
        (module, str(score.mutants), str(score.noticed), str(score.equivalent), f"{score.share:.0f} %")
        for module, score in [*results.by_module.items(), ("all", total(results.by_module))]
    ]
    heads = ("", "mutants", "noticed", "equivalent", "share")
    parts = [section(f"Small faults in the code that matters ({results.minutes:.0f} minutes)", heads, rows)]
    if results.unexplained:
        changes = [(one.module, one.before, one.after) for one in results.unexplained]
        parts.append(section(f"Not noticed, and not in {KNOWN.name}", ("", "before", "after"), changes))
    parts += [f"{target.name}: {target.shown} of {WANTED:.0f} %: {target.verdict}\n" for target in results.targets]
    return "\n".join(parts)


def main() -> int:
    return Benchmark(name="mutant_bench", about=__doc__ or "", seed_of="nothing", measure=_measured, text=text).main()


if __name__ == "__main__":
    sys.exit(main())
