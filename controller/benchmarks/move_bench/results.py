"""All that the benchmark found out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from exclude_bench.target import Target
from relay_bench.results import section, verdicts

from .scale import Scale
from .ways import RSYNC, STATEFUL, STOPPED, WARM

#: What the paper says of a container of 807 to 945 MB.
PAPER_DOWN = (5.4, 9.0)
_OF_ALL = (
    "Stateful: with memory, processes and an open connection (CRIU), in a network that both LXDs share; down is the",
    "longest time between two answers. LXD's own live move is not offered and not measured.",
)
NOT_HAD = (*_OF_ALL, "Both LXDs are on this machine, without VMs: what a wire or a VM costs is not in it.")
#: By the accelerator.
IN_VMS = {
    "kvm": ("Each LXD is in a VM with one CPU; both are on this machine.",),
    "qemu": (
        "Each LXD is in a VM with one CPU, which is emulated: ratios count, the seconds are those of a machine that",
        "is many times slower. Hence the container is smaller than the paper's, so that what copies the whole of it",
        "after its stop looks better than it is.",
    ),
}


@dataclass(frozen=True)
class Moved:
    """Seconds: the whole, and without any answer. `broken`: connections, where one could survive.

    `lost`: questions without an answer, of one client that asks again 10 ms after each, or 100 ms in VMs. `megabytes`:
    over the network, where that was counted.
    """

    seconds: float
    down: float | None
    broken: int = 0
    lost: int | None = None
    megabytes: float | None = None


@dataclass(frozen=True)
class Missing:
    """A way that was not measured in a round."""

    number: int
    way: str
    why: str


@dataclass(frozen=True)
class Results:
    scale: Scale
    load: float
    """Of the machine at the start: processes that wanted to run."""
    rounds: Sequence[Mapping[str, Moved]]
    targets: Sequence[Target]
    missing: Sequence[Missing] = ()
    vms: str = ""
    """How the CPUs of the LXDs' VMs run; empty where both LXDs are on the machine itself."""


def downs(rounds: Sequence[Mapping[str, Moved]], way: str) -> list[float]:
    found = [entry[way] for entry in rounds if way in entry]
    return [one.down for one in found if one.down is not None]


def ratios(rounds: Sequence[Mapping[str, Moved]], way: str) -> list[float]:
    """How many times as long as ours it is down, in each round that has both."""
    both = [(entry[way].down, entry[WARM].down) for entry in rounds if way in entry and WARM in entry]
    return [theirs / mine for theirs, mine in both if theirs and mine]


def targets(scale: Scale, rounds: Sequence[Mapping[str, Moved]]) -> list[Target]:
    """A second at most, and a fifth of a stop, copy and start, each by itself; with memory a second and a half."""
    broken = [entry[STATEFUL].broken for entry in rounds if STATEFUL in entry]
    void = f"fewer than {scale.needed} rounds with a figure"

    def judged(found: Sequence[float]) -> float | None:
        return median(found) if len(found) >= scale.needed else None

    return [
        Target(f"{WARM}: down", judged(downs(rounds, WARM)), 1.0, "s", True, void),
        Target(f"{STOPPED} / {WARM}: down", judged(ratios(rounds, STOPPED)), 5.0, "", False, void),
        Target(f"{STATEFUL}: down", judged(downs(rounds, STATEFUL)), 1.5, "s", True, void),
        Target(
            f"{STATEFUL}: broken connections", sum(broken) if len(broken) >= scale.needed else None, 0, "", True, void
        ),
    ]


def _spread(each: Sequence[float]) -> str:
    return f"{median(each):.2f} ({min(each):.2f} to {max(each):.2f})" if each else "none"


def text(results: Results) -> str:
    scale = results.scale
    where = " between two VMs" if results.vms else ""
    title = (
        f"A container of {scale.megabytes} MB ({scale.memory} MB of memory) moves{where} while it serves, "
        f"{len(results.rounds)} rounds (load of the machine before: {results.load:.1f}): median (lowest to highest)"
    )
    rows = []
    for way in (WARM, STATEFUL, STOPPED, RSYNC):
        found = [entry[way] for entry in results.rounds if way in entry]
        lost = [one.lost for one in found if one.lost is not None]
        moved = [one.megabytes for one in found if one.megabytes is not None]
        rows.append(
            (
                way,
                _spread([one.seconds for one in found]),
                _spread(downs(results.rounds, way)),
                "1" if way == WARM else _spread(ratios(results.rounds, way)),
                f"{median(lost):.0f}" if lost else "",
                f"{median(moved):.0f}" if moved else "",
            )
        )
    low, high = PAPER_DOWN
    rows.append(("the paper", "", f"{low} to {high}", "", "", ""))
    heads = ("", "whole, s", "down, s", f"down / {WARM}'s", "questions lost", "MB over the network")
    sections = [section(title, heads, rows)]
    notes = (*_OF_ALL, *IN_VMS[results.vms]) if results.vms else NOT_HAD
    sections[0] += "".join(f"  {line}\n" for line in notes)
    if results.missing:
        lines = [(str(one.number), one.way, one.why) for one in results.missing]
        sections.append(section("Not measured", ("round", "", "why"), lines))
    sections.append(verdicts(results.targets))
    return "\n".join(sections)
