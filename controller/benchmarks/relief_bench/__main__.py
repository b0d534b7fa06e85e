"""`python -m relief_bench`: an overloaded secondary is relieved while clients go on asking; see --help."""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from exclude_bench.command import Benchmark
from vcrecovery_lab.pair.waiting import wait_until
from vcrecovery_lab.progress import stderr_progress

from .client import clients
from .results import Results, targets, text
from .scale import FULL, QUICK
from .sides import NAMES, PORT, sides

#: What is left on a secondary that is full may be too much still.
_ENOUGH = (0, 3)
#: Seconds for the clients to begin.
_BEGIN = 2.0


def _measured(folder: Path, quick: bool, _seed: int) -> Results:
    scale, load = QUICK if quick else FULL, os.getloadavg()[0]
    folder.chmod(0o755)
    with ExitStack() as ends:
        with stderr_progress("two LXDs and four services"):
            found = ends.enter_context(sides(folder, scale.megabytes))
        places = {name: found.addresses(name) for name in NAMES}
        with stderr_progress("what `vcrecovery rebalance` does"), clients(places, PORT) as given:
            began = time.monotonic()
            wait_until(lambda: all(given.values()), "an answer of each", 60)
            time.sleep(_BEGIN + scale.before)
            asked = time.monotonic() - began
            said = found.vcrecovery("rebalance", may_end=_ENOUGH)
            ended = time.monotonic() - began
            time.sleep(scale.after)
            until = time.monotonic() - began
        moved = found.serving_on(1)
    answers = {name: [at - began for at in each] for name, each in given.items()}
    verdicts = targets(scale, answers, moved, asked, ended, until)
    return Results(scale, load, answers, moved, asked, ended, until, said, verdicts)


def main() -> int:
    return Benchmark(
        name="relief_bench",
        about="What four services on an overloaded secondary answer before, while and after some of them leave it.",
        seed_of="nothing: nothing is drawn by lot here",
        measure=_measured,
        text=text,
        work_help="for the plan and the journal",
    ).main()


if __name__ == "__main__":
    sys.exit(main())
