"""`python -m recovery_bench`: measures everything and prints it; see --help."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path

from exclude_bench.command import Benchmark
from vcrecovery.plan.modes import Mode
from vcrecovery_lab.lab import hypervisor
from vcrecovery_lab.layout import read_layout
from vcrecovery_lab.progress import stderr_progress
from vcrecovery_lab.secondary_vm.images import services_image
from vcrecovery_lab.secondary_vm.site import secondary_vm

from .answers import DATABASE, WEB
from .overhead import measure_overhead
from .results import Results, targets, text
from .scale import FULL, QUICK
from .stage_containers import Recovery, recover
from .stage_vms import standby_vms

#: As in the paper, section V.A, with nginx for Apache and MariaDB for MySQL.
SERVICES = {"web1": WEB, "web2": WEB, "web3": WEB, "db1": DATABASE}
MODES = (Mode.COLD, Mode.FROZEN, Mode.HOT)
#: Patient with an emulated CPU.
TIMEOUTS = {"start": "15m", "ports": "15m"}


def _measured(folder: Path, quick: bool, _seed: int) -> Results:
    scale = QUICK if quick else FULL
    load = os.getloadavg()[0]
    folder.chmod(0o755)
    vms, boots = [], []
    modes: dict[str, list[Recovery]] = {str(mode): [] for mode in MODES}
    overheads = []
    for services, rounds in scale.overhead.items():
        with stderr_progress(f"the controller's own time, {services} services"):
            place = folder / str(services)
            place.mkdir()
            overheads.append(measure_overhead(place, services, rounds))
    with ExitStack() as ends:
        ends.enter_context(hypervisor(read_layout()))
        image = services_image(stderr_progress)
        site = ends.enter_context(secondary_vm(folder, SERVICES, image, stderr_progress, timeouts=TIMEOUTS))
        with stderr_progress("four standby VMs: first boot"):
            booted = ends.enter_context(standby_vms(folder, image, site.accelerator, SERVICES))
        for number in range(1, scale.rounds + 1):
            with stderr_progress(f"round {number}: VMs"):
                seconds, parts = booted.boot()
            vms.append(seconds)
            boots.append(parts)
            for mode in MODES:
                with stderr_progress(f"round {number}: {mode} containers"):
                    modes[mode].append(recover(site, mode))
        accelerator = site.accelerator
    return Results(scale, load, accelerator, vms, boots, modes, overheads, targets(vms, modes, overheads))


def main() -> int:
    return Benchmark(
        name="recovery_bench",
        about="How long four services take to come back: as containers in one secondary VM, and as VMs.",
        seed_of="nothing: nothing is drawn by lot here",
        measure=_measured,
        text=text,
        work_help="for the VMs' disks, and the journal: a real disk",
        work=Path("/var/tmp"),  # noqa: S108  a folder of its own is made in it
    ).main()


if __name__ == "__main__":
    sys.exit(main())
