"""`make mutants`: how many small faults in the code that matters a test notices.

`MODULES="core/fencing drivers/dns"` in the environment: only of these. The exit status is 1 where too many are not
noticed, where one that stays has no reason in `known.yml`, and where a reason there is stale.
"""

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

from .outcome import KNOWN, Change, Score, known, scores, stale, total
from .place import BROKEN, QUICK, install, meet, prepare

#: Percent of those that are not equivalent.
WANTED = 95.0


@dataclass(frozen=True)
class Results:
    by_module: Mapping[str, Score]
    unexplained: Sequence[Change]
    stale: Sequence[Change]
    broken_tests: Sequence[str]
    minutes: float
    targets: Sequence[Target]


def _measured(folder: Path, quick: bool, _seed: int) -> Results:
    reasons, begun = known(KNOWN.read_text()), time.monotonic()
    named = [f"{name}.py" for name in os.environ.get("MODULES", "").split()]
    install()
    with stderr_progress("making the mutants, and showing them to the type checker"):
        controller = prepare(folder, named or (QUICK if quick else BROKEN))
    with stderr_progress("showing them to the tests (an hour on two idle processors; --quick: ten minutes)"):
        mutants, broken = meet(controller)
    by_module, explained = scores(mutants, reasons), {one.change for one in reasons}
    unexplained = [one.change for one in mutants if not one.noticed and one.change not in explained]
    old, share = stale(mutants, reasons), total(by_module.values()).share
    targets = targets_of(share, len(unexplained), len(old), len(broken))
    return Results(by_module, unexplained, old, broken, (time.monotonic() - begun) / 60, targets)


def targets_of(share: float, unexplained: int, stale: int, broken_tests: int) -> list[Target]:
    return [
        Target("noticed of what is not equivalent", share, WANTED, "%", at_most=False, must=True),
        Target("not noticed, without a reason", unexplained, 0, "", at_most=True, must=True),
        Target("stale reasons", stale, 0, "", at_most=True, must=True),
        Target("tests that fail without a mutant", broken_tests, 0, "", at_most=True, must=True),
    ]


def text(results: Results) -> str:
    rows = [
        (module, *map(str, (score.mutants, score.by_types, score.by_tests, score.equivalent, score.lab, score.stays)),
         str(score.left), f"{score.share:.1f} %")
        for module, score in [*results.by_module.items(), ("all", total(results.by_module.values()))]
    ]  # fmt: skip
    heads = ("", "mutants", "by types", "by tests", "equivalent", "lab only", "stays", "no reason", "noticed")
    parts = [section(f"Small faults in the code that matters ({results.minutes:.0f} minutes)", heads, rows)]
    for title, changes in (
        (f"Not noticed, and not in {KNOWN.name}", results.unexplained),
        (f"In {KNOWN.name}, but noticed by now, or not made any more", results.stale),
    ):
        if changes:
            parts.append(section(title, ("", "before", "after"), [(c.module, c.before, c.after) for c in changes]))
    if results.broken_tests:
        parts.append(section("Tests that fail without a mutant", ("",), [(test,) for test in results.broken_tests]))
    parts += [f"{target.name}: {target.shown}: {target.verdict}\n" for target in results.targets]
    return "\n".join(parts)


def main() -> int:
    return Benchmark(name="mutant_bench", about=__doc__ or "", seed_of="nothing", measure=_measured, text=text).main()


if __name__ == "__main__":
    sys.exit(main())
