"""`python -m install_bench`: installs the archive, lays out the lab's site from it, and prints how long that takes."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from exclude_bench.command import Benchmark
from exclude_bench.target import Target
from relay_bench.results import section, verdicts
from vcrecovery_lab.layout import read_layout

from .archive import Installed, installed
from .plays import ROLE


@dataclass(frozen=True)
class Results:
    load: float
    lab: Installed
    targets: list[Target]


def _measured(folder: Path, _quick: bool, _seed: int) -> Results:
    load = os.getloadavg()[0]
    lab = installed(read_layout(), folder)
    second = lab.second
    targets = [
        Target(f"second run: {name}", seconds, ROLE, "s", at_most=True)
        for name, seconds in sorted(second.roles.items(), key=lambda role: -role[1])
    ]
    nothing = Target("what a second run changes", second.changed, 0, "tasks", at_most=True, must=True)
    return Results(load, lab, [*targets, nothing])


def text(results: Results) -> str:
    lab = results.lab
    rows = [
        ("ansible-galaxy collection install ARCHIVE", f"{lab.collection:.1f} s", ""),
        ("ansible-playbook vcrecovery.standby.site", f"{lab.first.seconds:.1f} s", f"{lab.first.changed} changes"),
        ("vcrecovery status --check, until it is well", f"{lab.protected:.1f} s", ""),
        ("together, to the first protected service", f"{lab.seconds:.1f} s", ""),
        (
            "ansible-playbook vcrecovery.standby.site, again",
            f"{lab.second.seconds:.1f} s",
            f"{lab.second.changed} changes",
        ),
    ]
    roles = [
        (name, f"{lab.first.roles.get(name, 0.0):.1f} s", f"{seconds:.1f} s")
        for name, seconds in lab.second.roles.items()
    ]
    return "\n".join(
        [
            section(f"From the archive, at a load of {results.load:.1f}", ("command", "takes", ""), rows),
            section("Roles", ("role", "first run", "second run"), roles),
            verdicts(results.targets),
            "Not in it: the packages of the distribution, which are here already, and Ansible's own installation.\n",
        ]
    )


def main() -> int:
    return Benchmark(
        name="install_bench",
        about="How long it takes from the collection's archive to the first protected service, in the lab.",
        seed_of="nothing",
        measure=_measured,
        text=text,
    ).main()


if __name__ == "__main__":
    sys.exit(main())
