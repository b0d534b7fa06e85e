"""`python -m recovery_bench`: measures everything and prints it; see --help."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path

from vcrecovery_lab.lab import hypervisor
from vcrecovery_lab.layout import read_layout
from vcrecovery_lab.progress import stderr_progress
from vcrecovery_lab.secondary_vm.images import services_image
from vcrecovery_lab.secondary_vm.site import secondary_vm

from .command import main_of
from .overhead import measure_overhead
from .results import Measured, Results, targets, text
from .rounds import VMS, order
from .scale import FULL, QUICK
from .services import MODES, SERVICES, TIMEOUTS
from .stage_containers import recover
from .stage_vms import standby_vms


def _measured(folder: Path, quick: bool, _seed: int) -> Results:
    scale = QUICK if quick else FULL
    load = os.getloadavg()[0]
    folder.chmod(0o755)
    overheads = []
    for services, rounds in scale.overhead.items():
        with stderr_progress(f"the controller's own time, {services} services"):
            place = folder / str(services)
            place.mkdir()
            overheads.append(measure_overhead(place, services, rounds))
    done: list[Measured] = []
    with ExitStack() as ends:
        ends.enter_context(hypervisor(read_layout()))
        image = services_image(stderr_progress)
        site = ends.enter_context(secondary_vm(folder, SERVICES, image, stderr_progress, timeouts=TIMEOUTS))
        with stderr_progress("four standby VMs: first boot"):
            standbys = ends.enter_context(standby_vms(folder, image, site.accelerator, SERVICES))
        for number in range(scale.rounds):
            this = Measured({}, {})
            for way in order(number):
                with stderr_progress(f"round {number + 1}: {way}"):
                    if way in VMS:
                        this.vms[way] = standbys.recover(way)
                    else:
                        this.containers[way] = recover(site, MODES[way])
            done.append(this)
        accelerator = site.accelerator
    return Results(scale, load, accelerator, done, overheads, targets(scale, done, overheads))


def main() -> int:
    about = "How long four services take to come back: as containers in one secondary VM, and as VMs."
    return main_of("recovery_bench", about, _measured, text)


if __name__ == "__main__":
    sys.exit(main())
