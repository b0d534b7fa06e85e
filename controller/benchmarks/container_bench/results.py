"""All that the benchmark found out, beside what the paper says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from exclude_bench.target import Target
from relay_bench.results import section, verdicts

from .paper import LOADS, said
from .rounds import Round, compare
from .scale import Scale
from .sides import VM

#: What differs from the paper's experiment.
DIFFERENCES = (
    "stress-ng and dd are in place of UnixBench 5.1.3, by the operation that each measures; the total is the geometric",
    "mean of these. fio reads and writes past the VM's page cache (direct), but the host has the VM's disk in its own.",
    "A pool of btrfs is in a file on the VM's disk, as LXD makes it by default.",
    "Containers are unprivileged and have LXD's seccomp filter, which each system call passes.",
)


@dataclass(frozen=True)
class Results:
    scale: Scale
    load: float
    """Of the machine at the start: processes that wanted to run."""
    accelerator: str
    versions: Mapping[str, str]
    units: Mapping[str, str]
    """Load -> what its figures are in."""
    sides: Sequence[str]
    not_run: Mapping[str, str]
    """LXD's driver -> why."""
    rounds: Sequence[Round]
    targets: Sequence[Target]


def pool_of(side: str) -> str:
    return side.partition(".")[2]


def containers(sides: Sequence[str]) -> list[str]:
    return [side for side in sides if side != VM]


def targets(scale: Scale, sides: Sequence[str], rounds: Sequence[Round]) -> list[Target]:
    """Of what the paper has a figure for: no more is lost than there."""
    found = []
    for name, loads in LOADS.items():
        for side in containers(sides):
            limit = said(name, pool_of(side)).low
            if limit is not None:
                compared = compare(rounds, loads, side, VM)
                judged, void = compared.judged(scale.needed), compared.void_because(scale.needed)
                found.append(Target(f"{name}: {side} / {VM}", judged, limit, "", at_most=False, void_because=void))
    return found


def text(results: Results) -> str:
    title = (
        f"Containers in a VM against that VM, {len(results.rounds)} rounds of {results.scale.seconds} s each, "
        f"{results.accelerator} (load of the machine before: {results.load:.1f})"
    )
    heads = ("", "unit", *results.sides)
    sections = [section(title, heads, _figures(results)) + "".join(f"  {line}\n" for line in DIFFERENCES)]
    ratios = section(
        f"Of the {VM}'s: median of the rounds' ratios (lowest to highest)",
        ("", "side", "ratio", "the paper's"),
        _ratios(results),
    )
    sections.append(ratios)
    if results.not_run:
        sections.append(section("Not run", ("pool", "why"), list(results.not_run.items())))
    void = [(str(n), *line) for n, entry in enumerate(results.rounds, 1) for line in _missing(entry)]
    if void:
        sections.append(section("Without a figure: void in each comparison", ("round", "load", "side", "why"), void))
    sections.append(verdicts(results.targets, "Targets: what the paper lost"))
    return "\n".join(sections)


def _figures(results: Results) -> Iterator[tuple[str, ...]]:
    for load, unit in results.units.items():
        shown = []
        for side in results.sides:
            found = [entry[load][side].figure for entry in results.rounds]
            figures = [figure for figure in found if figure is not None]
            shown.append(f"{median(figures):,.4g}" if figures else "none")
        yield load, unit, *shown


def _ratios(results: Results) -> Iterator[tuple[str, ...]]:
    for name, loads in LOADS.items():
        for side in containers(results.sides):
            found = compare(results.rounds, loads, side, VM).ratios
            shown = f"{median(found):.3f} ({min(found):.3f} to {max(found):.3f})" if found else "none"
            yield name, side, shown, said(name, pool_of(side)).words


def _missing(entry: Round) -> Iterator[tuple[str, str, str]]:
    for load, of_sides in entry.items():
        for side, got in of_sides.items():
            if got.figure is None:
                yield load, side, got.missing
