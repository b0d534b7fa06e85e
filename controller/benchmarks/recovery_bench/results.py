"""All that one benchmark found out, and what was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from exclude_bench.target import Target
from relay_bench.results import section

from .boots import Boot
from .overhead import Overhead, overhead_targets, overhead_text
from .scale import Scale
from .stage_containers import Recovery

#: Of the time that booting VMs takes.
RATIOS = {"cold": 0.25, "frozen": 0.05}


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


def ratios(vms: Sequence[float], recovered: Sequence[float]) -> list[float]:
    """Round by round, since what else the machine does changes over time."""
    return [seconds / booted for booted, seconds in zip(vms, recovered, strict=True)]


def answered(recoveries: Sequence[Recovery]) -> list[float]:
    """Seconds from the command's start until all services answered: what is also measured of VMs."""
    return [entry.answered for entry in recoveries]


def ended(recoveries: Sequence[Recovery]) -> list[float]:
    """Seconds until the command had ended, too: it has looked at every port, for `settle` seconds."""
    return [max(entry.answered, entry.whole) for entry in recoveries]


def targets(
    vms: Sequence[float], modes: Mapping[str, Sequence[Recovery]], overheads: Sequence[Overhead]
) -> list[Target]:
    found = []
    for mode, limit in RATIOS.items():
        for what, seconds in (("all answer", answered(modes[mode])), ("the command's end", ended(modes[mode]))):
            name = f"{mode} containers / VMs, up to where {what}: median"
            found.append(Target(name, median(ratios(vms, seconds)), limit, "", at_most=True))
    return [*found, *overhead_targets(overheads)]


def text(results: Results) -> str:
    """Everything that was measured, and a verdict for each target."""
    rounds = len(results.vms)
    title = (
        f"Four services, {rounds} rounds, median (lowest to highest), {results.accelerator} "
        f"(load of the machine before: {results.load:.1f})"
    )
    rows = [("four VMs booted", spread(results.vms), "", "", "")]
    for mode, recoveries in results.modes.items():
        row = [f"{mode} containers"]
        for seconds in (answered(recoveries), ended(recoveries)):
            row += [spread(seconds), spread(ratios(results.vms, seconds), 3)]
        rows.append((row[0], row[1], row[2], row[3], row[4]))
    head = ("", "all answer, seconds", "of the VMs'", "the command's end, seconds", "of the VMs'")
    sections = [section(title, head, rows)]
    sections.append(_steps(results))
    sections.append(_boots(results))
    if results.overheads:
        sections.append(overhead_text(results.overheads))
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
