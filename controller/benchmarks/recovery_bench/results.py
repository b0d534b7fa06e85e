"""All that one benchmark found out, and what was asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median

from exclude_bench.targets import Target
from relay_bench.results import section

from .boots import Boot
from .overhead import Overhead
from .scale import Scale
from .stage_containers import Recovery

#: Of the time that booting VMs takes.
RATIOS = {"cold": 0.25, "frozen": 0.05}
#: Services -> seconds of the controller's own.
OVERHEAD = {4: 0.2, 200: 2.0}


@dataclass(frozen=True)
class Results:
    """`vms`: seconds until all answered, a round each. `modes`: mode -> the rounds."""

    scale: Scale
    load: float
    """Of the machine at the start: processes that wanted to run."""
    accelerator: str
    vms: Sequence[float]
    vm_boots: Sequence[Mapping[str, Boot]]
    modes: Mapping[str, Sequence[Recovery]]
    overheads: Sequence[Overhead]
    targets: Sequence[Target]


def ratios(vms: Sequence[float], recoveries: Sequence[Recovery]) -> list[float]:
    """Round by round, since what else the machine does changes over time. The whole command counts, to its end."""
    return [max(entry.answered, entry.whole) / seconds for seconds, entry in zip(vms, recoveries, strict=True)]


def targets(
    vms: Sequence[float], modes: Mapping[str, Sequence[Recovery]], overheads: Sequence[Overhead]
) -> list[Target]:
    found = [
        Target(f"{mode} containers / VMs: median", median(ratios(vms, modes[mode])), limit, "", at_most=True)
        for mode, limit in RATIOS.items()
    ]
    return found + [
        Target(
            f"controller's own time, {entry.services} services: median",
            entry.median,
            OVERHEAD[entry.services],
            "s",
            at_most=True,
        )
        for entry in overheads
    ]


def as_json(results: Results) -> str:
    document = asdict(results)
    for entry, target in zip(document["targets"], results.targets, strict=True):
        entry["met"] = target.met
    return json.dumps(document, indent=1) + "\n"


def text(results: Results) -> str:
    """Everything that was measured, and a verdict for each target."""
    rounds = len(results.vms)
    title = (
        f"Four services until all answer, {rounds} rounds, {results.accelerator} "
        f"(load of the machine before: {results.load:.1f})"
    )
    rows = [("four VMs booted", spread(results.vms), "")]
    for mode, recoveries in results.modes.items():
        whole = [max(entry.answered, entry.whole) for entry in recoveries]
        rows.append((f"{mode} containers", spread(whole), spread(ratios(results.vms, recoveries), 3)))
    sections = [section(title, ("", "seconds: median (lowest to highest)", "of the VMs' time"), rows)]
    sections.append(_steps(results))
    sections.append(_boots(results))
    if results.overheads:
        rows = [(str(entry.services), spread(entry.whole, 2), "") for entry in results.overheads]
        sections.append(section("The controller's own time", ("services", "seconds", ""), rows))
    verdicts = [(x.name, x.shown, f"<= {x.limit:g} {x.unit}", x.verdict) for x in results.targets]
    sections.append(section("Targets", ("target", "measured", "limit", ""), verdicts))
    return "\n".join(sections)


def _steps(results: Results) -> str:
    rows = []
    for mode, recoveries in results.modes.items():
        for step in recoveries[0].steps:
            seconds = [entry.steps[step] for entry in recoveries]
            if max(seconds) > 0:
                rows.append((mode, step, spread(seconds, 2)))
    return section("What the failovers' time goes into", ("mode", "step", "seconds of the slowest service"), rows)


def _boots(results: Results) -> str:
    rows = []
    ways: dict[str, list[Mapping[str, Boot]]] = {"VM": list(results.vm_boots)}
    if "cold" in results.modes:
        ways["container"] = [entry.boots for entry in results.modes["cold"]]
    for way, rounds in ways.items():
        for service in rounds[0]:
            boots = [entry[service] for entry in rounds if service in entry]
            parts = zip(*((boot.before, boot.systemd, boot.service) for boot in boots), strict=True)
            rows.append((way, service, *(spread(part) for part in parts)))
    head = ("", "service", "up to systemd, with waits", "systemd up to the service", "the service's start")
    return section("What the boots' time goes into, seconds", head, rows)


def spread(values: Sequence[float], digits: int = 1) -> str:
    return f"{median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"
