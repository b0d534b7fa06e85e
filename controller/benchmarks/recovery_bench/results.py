"""All that one benchmark found out, and what was asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from exclude_bench.target import Target
from relay_bench.results import section, verdicts

from .overhead import Overhead, overhead_targets, overhead_text
from .rounds import VMS, WAYS, Comparison, Round, Way, compare, missing
from .scale import Scale
from .stage_containers import Recovery
from .stage_vms import VmRecovery

#: What is compared with what, and the limit of the ratio if there is one.
LIMITS: Mapping[tuple[Way, Way], float | None] = {
    (Way.COLD, Way.BOOTED): 0.25,
    (Way.FROZEN, Way.BOOTED): 0.05,
    (Way.FROZEN, Way.RESUMED): 1.0,
    (Way.FROZEN, Way.RESTORED): None,
}
ANSWER, END = "all answer", "the command's end"
#: What differs between the two sides beside VM and container.
DIFFERENCES = (
    "VMs: `virsh start` or `virsh resume`, without a controller. Containers: `vcrecovery failover`, which confirms,",
    "fences and journals before it starts them, and ends after each port has answered for a while.",
    "Both start the units of their ports first. VMs have a kernel, devices and a network to bring up before that.",
    "The disks of the VMs are in the host's cache. The secondary runs all the time, idle beside the VMs.",
    "Neither detection nor DNS is in these figures: each begins when it is known that the primaries are off.",
)


@dataclass(frozen=True)
class Measured:
    """One round."""

    vms: dict[Way, VmRecovery]
    containers: dict[Way, Recovery]

    @property
    def answered(self) -> Round:
        of_vms = {way: entry.answered for way, entry in self.vms.items()}
        return {**of_vms, **{way: entry.answered for way, entry in self.containers.items()}}

    @property
    def ended(self) -> Round:
        """VMs have no command that would end later."""
        return {**self.answered, **{way: entry.ended for way, entry in self.containers.items()}}


@dataclass(frozen=True)
class Results:
    scale: Scale
    load: float
    """Of the machine at the start: processes that wanted to run."""
    accelerator: str
    rounds: Sequence[Measured]
    overheads: Sequence[Overhead]
    targets: Sequence[Target]


def _ends(rounds: Sequence[Measured]) -> dict[str, list[Round]]:
    return {ANSWER: [entry.answered for entry in rounds], END: [entry.ended for entry in rounds]}


def _compared(rounds: Sequence[Measured]) -> Iterator[tuple[Way, Way, str, Comparison]]:
    for ours, theirs in LIMITS:
        for what, entries in _ends(rounds).items():
            yield ours, theirs, what, compare(entries, ours, theirs)


def targets(scale: Scale, rounds: Sequence[Measured], overheads: Sequence[Overhead]) -> list[Target]:
    found = []
    for ours, theirs, what, compared in _compared(rounds):
        limit = LIMITS[ours, theirs]
        if limit is not None:
            ratio, void = compared.judged(scale.needed), compared.void_because(scale.needed)
            name = f"{ours} / {theirs}, up to where {what}"
            found.append(Target(name, ratio, limit, "", at_most=True, void_because=void))
    return [*found, *overhead_targets(overheads)]


def text(results: Results) -> str:
    """Everything that was measured, and a verdict for each target."""
    sections = [_seconds(results), _ratios(results)]
    void = list(_void(results.rounds))
    if void:
        sections.append(section("Without an answer: void in each comparison", ("round", "what"), void))
    sections += [_steps(results), _boots(results)]
    if results.overheads:
        sections.append(overhead_text(results.overheads))
    title = "Targets (of the ratios: the worse of their median and the medians' ratio)"
    sections.append(verdicts(results.targets, title))
    return "\n".join(sections)


def _seconds(results: Results) -> str:
    title = (
        f"Four services, {len(results.rounds)} rounds, seconds: median (lowest to highest), {results.accelerator} "
        f"(load of the machine before: {results.load:.1f})"
    )
    rows = []
    for way in WAYS:
        # A hot standby answers before it is asked to take over.
        answered = "" if way is Way.HOT else spread_of(entry.answered[way].seconds for entry in results.rounds)
        ended = "" if way in VMS else spread_of(entry.ended[way].seconds for entry in results.rounds)
        rows.append((f"four {way}", answered, ended))
    return section(title, ("", ANSWER, END), rows) + "".join(f"  {line}\n" for line in DIFFERENCES)


def _ratios(results: Results) -> str:
    rows = []
    for ours, theirs, what, compared in _compared(results.rounds):
        ratio = compared.ratio_of_medians
        rows.append(
            (
                f"{ours} / {theirs}",
                what,
                str(len(compared.ours)),
                spread(compared.ratios, 4) if compared.ratios else "none",
                "none" if ratio is None else f"{ratio:.4f}",
            )
        )
    heads = ("", "up to where", "rounds", "median of the ratios (lowest to highest)", "ratio of the medians")
    return section("Ratios", heads, rows)


def _void(rounds: Sequence[Measured]) -> Iterator[tuple[str, str]]:
    for number, entry in enumerate(rounds, 1):
        for line in missing(entry.ended, *WAYS):
            yield str(number), line


def _steps(results: Results) -> str:
    rows = []
    for way in results.rounds[0].containers:
        done = [entry.containers[way].steps for entry in results.rounds if entry.containers[way].steps]
        for step in done[0] if done else ():
            seconds = [steps[step] for steps in done]
            if max(seconds) > 0:
                rows.append((str(way), step, spread(seconds, 2)))
    return section("What the failovers' time goes into", ("", "step", "seconds of the slowest service"), rows)


def _boots(results: Results) -> str:
    rows = []
    ways = {
        "VM": [entry.vms[Way.BOOTED].boots for entry in results.rounds],
        "container": [entry.containers[Way.COLD].boots for entry in results.rounds],
    }
    for way, rounds in ways.items():
        for service in dict.fromkeys(name for entry in rounds for name in entry):
            boots = [entry[service] for entry in rounds if service in entry]
            parts = zip(*((boot.before, boot.systemd, boot.service) for boot in boots), strict=True)
            rows.append((way, service, *(spread(part) for part in parts)))
    head = ("", "service", "up to systemd, with waits", "systemd up to the service", "the service's start")
    return section("What the boots' time goes into, seconds", head, rows)


def spread_of(values: Iterable[float | None]) -> str:
    found = [value for value in values if value is not None]
    return spread(found) if found else "none"


def spread(values: Sequence[float], digits: int = 1) -> str:
    return f"{median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"
