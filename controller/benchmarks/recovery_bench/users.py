"""What users wait for: `python -m recovery_bench.users`.

All primaries crash at once. `vcrecovery watch` notices it, fails them over and switches their names; measured is the
time until each name leads to its standby, and that answers. The standbys are containers in each mode, or VMs that the
same controller boots: to it, those are cold containers of an LXD that starts a VM in place of each.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from exclude_bench.target import Target
from relay_bench.results import section, verdicts
from vcrecovery_lab.lab import hypervisor
from vcrecovery_lab.layout import read_layout
from vcrecovery_lab.progress import stderr_progress
from vcrecovery_lab.secondary_vm.images import services_image
from vcrecovery_lab.secondary_vm.site import secondary_vm

from .command import main_of
from .results import spread_of
from .rounds import Took, Way, compare, missing, order
from .services import MODES, SERVICES, TIMEOUTS
from .stage_users import crash_of_containers, crash_of_vms
from .stage_vms import standby_vms

WAYS = (Way.BOOTED, Way.COLD, Way.FROZEN, Way.WARM, Way.HOT)
#: Of the time with booted VMs: users must not wait longer for a container.
LIMITS = dict.fromkeys(WAYS[1:], 1.0)
#: Each way is once the first.
ROUNDS, NEEDED = len(WAYS), 4


@dataclass(frozen=True)
class Results:
    load: float
    """Of the machine at the start: processes that wanted to run."""
    accelerator: str
    rounds: Sequence[Mapping[Way, Took]]
    targets: Sequence[Target]


def targets(rounds: Sequence[Mapping[Way, Took]], needed: int) -> list[Target]:
    found = []
    for way, limit in LIMITS.items():
        compared = compare(rounds, way, Way.BOOTED)
        name = f"{way} / {Way.BOOTED}, crash to the answer through the name"
        void = compared.void_because(needed)
        found.append(Target(name, compared.judged(needed), limit, "", at_most=True, void_because=void))
    return found


def text(results: Results) -> str:
    rows = []
    for way in WAYS:
        compared = compare(results.rounds, way, Way.BOOTED)
        ratios = [
            f"{x:.4f}" if x is not None else "none" for x in (compared.median_of_ratios, compared.ratio_of_medians)
        ]
        rows.append((f"four {way}", spread_of(entry[way].seconds for entry in results.rounds), *ratios))
    title = (
        f"Crash of all primaries to the right answer through every name, {len(results.rounds)} rounds, "
        f"{results.accelerator} (load of the machine before: {results.load:.1f})"
    )
    heads = ("", "seconds: median (lowest to highest)", "of the VMs': median of ratios", "ratio of medians")
    sections = [section(title, heads, rows)]
    void = [(str(n), line) for n, entry in enumerate(results.rounds, 1) for line in missing(entry, *WAYS)]
    if void:
        sections.append(section("Without an answer: void", ("round", "what"), void))
    sections.append(verdicts(results.targets))
    return "\n".join(sections)


def _measured(folder: Path, quick: bool, _seed: int) -> Results:
    load = os.getloadavg()[0]
    folder.chmod(0o755)
    services = dict(list(SERVICES.items())[:1]) if quick else SERVICES
    done: list[Mapping[Way, Took]] = []
    with ExitStack() as ends:
        ends.enter_context(hypervisor(read_layout()))
        image = services_image(stderr_progress)
        site = ends.enter_context(secondary_vm(folder, services, image, stderr_progress, timeouts=TIMEOUTS))
        with stderr_progress("standby VMs: first boot"):
            standbys = ends.enter_context(standby_vms(folder, image, site.accelerator, services))
        for number in range(1 if quick else ROUNDS):
            this: dict[Way, Took] = {}
            for way in order(number, WAYS):
                place = folder / f"{number}-{way.replace(' ', '-')}"
                with stderr_progress(f"round {number + 1}: {way}"):
                    if way is Way.BOOTED:
                        this[way] = crash_of_vms(place, standbys)
                    else:
                        this[way] = crash_of_containers(place, site, MODES[way])
            done.append(this)
        accelerator = site.accelerator
    return Results(load, accelerator, done, targets(done, 1 if quick else NEEDED))


def main() -> int:
    about = "How long users wait: from the crash of all primaries to the right answer through every name."
    return main_of("recovery_bench.users", about, _measured, text)


if __name__ == "__main__":
    sys.exit(main())
