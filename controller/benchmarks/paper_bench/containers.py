"""Figures 12, 13 and 14: a container in a VM against that VM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from container_bench.loads import FIO, NETWORK, UNIXBENCH
from container_bench.paper import LOADS, TOTAL, said
from container_bench.results import containers, pool_of
from container_bench.rounds import Got, Round, compare
from container_bench.sides import VM

from .benches import CONTAINERS
from .figure import Figure, Head, Plot, Row, Values, shown

_EMULATED = (
    "Where the machine at the top says that CPUs are emulated, processor, devices and interrupts all cost several "
    "times as much; what a container adds is a larger or smaller part of that. Only ratios within a round compare."
)
_SECCOMP = "Containers are unprivileged, with LXD's seccomp filter: each of their system calls passes it."


UNIXBENCH_HEAD = Head(
    "12",
    "UnixBench",
    "A container is 13 to 17 % slower in pipes, context switches and system calls; in file copies 10 % on dir and lvm, "
    "55 to 65 % on btrfs, 85 % on zfs; 7 to 8 % in total on dir and lvm.",
    (CONTAINERS,),
)
_UNIXBENCH_DIFFERS = (
    "Debian's stress-ng stands in for UnixBench 5.1.3: pipe, switch, dup, fork, exec and cpu (int64, double).",
    "Files are copied by dd: stress-ng has no buffer to choose, and its way to copy copies no data on btrfs.",
    f"The total is the geometric mean of these {len(UNIXBENCH)} alone; UnixBench has shell scripts too.",
)
FIO_HEAD = Head(
    "13",
    "fio",
    "Sequential read as in UnixBench; sequential write slightly faster than the VM on dir and lvm; random read on dir "
    '"too high"; random write the same on dir, much higher on btrfs. The paper leaves the reasons open.',
    (CONTAINERS,),
)
_FIO_DIFFERS = (
    (
        "I/O is direct: it passes the VM's page cache. The host still caches the VM's disk, so no disk's speed is in "
        "it. The paper does not say how it called fio."
    ),
    "The pool of btrfs is in a file on the VM's disk, as LXD makes it by default.",
)
NETWORK_HEAD = Head("14", "iperf3", "TCP to a container in a VM is as fast as to a VM.", (CONTAINERS,))
_NETWORK_DIFFERS = (
    (
        "From the machine to the VM or the container, with no wire between: the CPU is the limit, not Gigabit "
        "Ethernet. The container is on a bridge in the VM."
    ),
)


def unixbench(found: Mapping[str, Any]) -> Figure:
    return _figure(found, UNIXBENCH_HEAD, [*UNIXBENCH, TOTAL], (*_UNIXBENCH_DIFFERS, _SECCOMP, _EMULATED))


def files(found: Mapping[str, Any]) -> Figure:
    size = f"fio has one process: 1 MiB at a time in sequence, 4 KiB at random, in {found['scale']['file_mib']} MiB."
    return _figure(found, FIO_HEAD, list(FIO), (size, *_FIO_DIFFERS, _EMULATED))


def network(found: Mapping[str, Any]) -> Figure:
    return _figure(found, NETWORK_HEAD, [NETWORK], (*_NETWORK_DIFFERS, _EMULATED))


def _figure(found: Mapping[str, Any], head: Head, names: Sequence[str], differs: Sequence[str]) -> Figure:
    rounds = [_round(entry) for entry in found["rounds"]]
    sides = containers(found["sides"])
    rows, void = [], dict[str, None]()
    groups: dict[str, dict[str, Values | None]] = {}
    for name in names:
        groups[name] = {}
        for side in sides:
            words = said(name, pool_of(side))
            compared = compare(rounds, LOADS[name], side, VM)
            unit = found["units"].get(name, "")
            void |= dict.fromkeys(compared.void)
            rows.append(
                Row(
                    f"{name}, {side}",
                    words.words,
                    _figures(rounds, name, side, unit),
                    f"{VM}: {_figures(rounds, name, VM, unit)}" if unit else "",
                    shown(compared.ratios, 3),
                    f"{len(compared.ratios)} of {len(rounds)}",
                )
            )
            groups[name][side] = Values.of(compared.ratios) if compared.ratios else None
            if words.low is not None and words.high is not None:
                middle = (words.low + words.high) / 2
                groups[name][f"{side}, the paper's"] = Values(middle, words.low, words.high, 0)
    not_run = [f"C.{pool}: not run: {why}" for pool, why in found["not_run"].items()]
    plot = Plot(f"figure-{head.number}", f"{head.number}: {head.title}", "container / VM", groups, 1.0)
    return Figure(head, rows, [*void, *not_run], differs, plot)


def _figures(rounds: Sequence[Round], name: str, side: str, unit: str) -> str:
    """Of a side in all rounds; a total has no unit, and none."""
    if not unit:
        return "by the ratios"
    found = [entry[name][side].figure for entry in rounds]
    figures = [figure for figure in found if figure is not None]
    digits = 0 if figures and min(figures) >= 100 else 1
    return f"{shown(figures, digits)} {unit}" if figures else "none"


def _round(entry: Mapping[str, Mapping[str, Any]]) -> Round:
    return {load: {side: Got(**got) for side, got in sides.items()} for load, sides in entry.items()}
