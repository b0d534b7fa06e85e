"""A secondary on demand: `python -m recovery_bench.cold_secondary`.

The primary's QEMU is killed while the secondary's VM is off. The watcher notices it, boots the secondary, starts the
standby and switches the name. The boot, which another hypervisor does in its own time, is told apart.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from exclude_bench.target import Target
from relay_bench.results import section
from vcrecovery.core.episode import Step
from vcrecovery_lab.lab import hypervisor
from vcrecovery_lab.layout import read_layout
from vcrecovery_lab.progress import stderr_progress
from vcrecovery_lab.run import LabError
from vcrecovery_lab.secondary_vm.images import services_image
from vcrecovery_lab.secondary_vm.on_demand import OnDemandSite, on_demand_vm
from vcrecovery_lab.secondary_vm.site import SECONDARY
from vcrecovery_lab.zabbix.process import end_of

from .answers import WEB
from .command import main_of
from .results import spread_of
from .services import TIMEOUTS
from .stage_containers import newest_of, seconds_of, stop_standbys, vcrecovery
from .stage_users import crash

NAME, ROUNDS = "web1", 5


@dataclass(frozen=True)
class Came:
    """Seconds: from the kill to the right answer through the name, and of that the boot and the standby's own start."""

    whole: float
    boot: float
    start: float

    @property
    def rest(self) -> float:
        """What remains: until it is noticed, confirmed and fenced, and for the name."""
        return self.whole - self.boot - self.start


@dataclass(frozen=True)
class Results:
    """`load`: of the machine at the start, in processes that wanted to run."""

    load: float
    accelerator: str
    rounds: Sequence[Came]
    targets: Sequence[Target] = ()


def _measured(folder: Path, quick: bool, _seed: int) -> Results:
    load = os.getloadavg()[0]
    folder.chmod(0o755)
    with ExitStack() as ends:
        ends.enter_context(hypervisor(read_layout()))
        image = services_image(stderr_progress)
        made = on_demand_vm(folder, {NAME: WEB}, image, stderr_progress, timeouts=TIMEOUTS)
        site = ends.enter_context(made)
        rounds = [_round(folder, site, number) for number in range(1, 2 if quick else ROUNDS + 1)]
        return Results(load, site.accelerator, rounds)


def _round(folder: Path, site: OnDemandSite, number: int) -> Came:
    stop_standbys(site)
    vcrecovery(site, "standby", "reset", NAME)
    site.stamp()
    vcrecovery(site, "secondary", "off", SECONDARY)
    (place := folder / f"round-{number}").mkdir()
    with stderr_progress(f"round {number}"):
        took = crash(place, site.data, {NAME: (site.standbys[NAME], WEB)})
    if took.seconds is None:
        said = end_of(place / "watch.log")  # which goes with the folder
        raise LabError(f"round {number}: {took.missing}; the watcher: {said}")
    episode = newest_of(site, NAME)
    starts = seconds_of(episode, Step.START) + seconds_of(episode, Step.PROBE)
    return Came(took.seconds, seconds_of(episode, Step.POWER_ON), starts)


def text(results: Results) -> str:
    parts: Sequence[tuple[str, Callable[[Came], float]]] = (
        ("kill to the right answer through the name", lambda one: one.whole),
        ("  of that: the secondary's boot, until its LXD answers", lambda one: one.boot),
        ("  of that: the standby's start, until its ports are open", lambda one: one.start),
        ("  the rest: noticed, confirmed, fenced; the name", lambda one: one.rest),
    )
    title = (
        f"A primary crashes while its secondary is off, {len(results.rounds)} rounds, {results.accelerator} "
        f"(load of the machine before: {results.load:.1f})"
    )
    rows = [(what, spread_of(of(one) for one in results.rounds)) for what, of in parts]
    return section(title, ("", "seconds: median (lowest to highest)"), rows)


def main() -> int:
    about = "How long users wait when a primary crashes whose secondary is off until then."
    return main_of("recovery_bench.cold_secondary", about, _measured, text)


if __name__ == "__main__":
    sys.exit(main())
