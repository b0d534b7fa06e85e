"""Figures 9a and 10a: how long it takes until services are back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recovery_bench.rounds import Round, Took, Way, compare

from .benches import RECOVERY, USERS
from .figure import Figure, Head, Plot, Row, Values, shown

_FROM_REQUEST = "request until all answer"
_TO_END = "request until `vcrecovery failover` has ended"
_TO_NAME = "crash until every name leads to the answer"
HOT = Head(
    "9a",
    "Recovery time, hot standby",
    "Four hot containers in a VM fail over in almost the same time as four VMs that run already.",
    (RECOVERY, USERS),
)
COLD = Head(
    "10a",
    "Recovery time, cold standby",
    "Four containers in a VM that runs are back in half the time of four VMs that are booted.",
    (RECOVERY, USERS),
)
_NO_HOT_VMS = (
    "VMs that run already are not measured: there would be nothing to start, and detection and DNS are the same for "
    "both. Containers are held against VMs that are resumed and VMs that are booted, which are slower."
)
_COMMON = (
    (
        "Four services as in the paper, but nginx for Apache and MariaDB for MySQL. Where the machine at the top says "
        "that CPUs are emulated, each start of a program costs several times what it does with KVM, on both sides."
    ),
    (
        "From the request on, there is neither detection nor DNS, and on the VMs' side no controller. From the crash "
        "on, all three are there on both sides, as in the paper."
    ),
)


@dataclass(frozen=True)
class _Pair:
    """What is held against what, in which rounds."""

    measure: str
    rounds: Sequence[Round]
    ours: Way
    theirs: Way
    paper: str = "no figure"


def hot(found: Mapping[str, Any]) -> Figure:
    pairs = [
        _Pair(_TO_END, _recovered(found, "ended"), Way.HOT, Way.RESUMED, "almost the same time, against VMs that run"),
        _Pair(_TO_END, _recovered(found, "ended"), Way.FROZEN, Way.RESUMED),
        _Pair(_TO_NAME, _used(found), Way.HOT, Way.BOOTED, "almost the same time, against VMs that run"),
        _Pair(_TO_NAME, _used(found), Way.WARM, Way.BOOTED),
        _Pair(_TO_NAME, _used(found), Way.FROZEN, Way.BOOTED),
    ]
    return _figure(HOT, pairs, (_NO_HOT_VMS, *_COMMON))


def cold(found: Mapping[str, Any]) -> Figure:
    pairs = [
        _Pair(_FROM_REQUEST, _recovered(found, "answered"), Way.COLD, Way.BOOTED, "0.50"),
        _Pair(_TO_END, _recovered(found, "ended"), Way.COLD, Way.BOOTED, "0.50"),
        _Pair(_TO_NAME, _used(found), Way.COLD, Way.BOOTED, "0.50"),
    ]
    return _figure(COLD, pairs, _COMMON)


def _figure(head: Head, pairs: Sequence[_Pair], differs: Sequence[str]) -> Figure:
    rows, void = [], []
    groups: dict[str, dict[str, Values | None]] = {}
    for pair in pairs:
        if not pair.rounds:
            continue
        compared = compare(pair.rounds, pair.ours, pair.theirs)
        void += [f"{pair.measure}, {pair.ours} against {pair.theirs}: {line}" for line in compared.void]
        rows.append(
            Row(
                f"{pair.ours}: {pair.measure}",
                pair.paper,
                _seconds(compared.ours),
                f"{pair.theirs}: {_seconds(compared.theirs)}",
                shown(compared.ratios, 3),
                f"{len(compared.ours)} of {len(pair.rounds)}",
            )
        )
        group = groups.setdefault(pair.measure.replace("`", ""), {})
        for way, each in ((pair.ours, compared.ours), (pair.theirs, compared.theirs)):
            group[str(way)] = Values.of(each) if each else None
    plot = Plot(f"figure-{head.number}", f"{head.number}: {head.title}", "seconds", groups) if groups else None
    return Figure(head, rows, void, differs, plot)


def _seconds(each: Sequence[float]) -> str:
    return f"{shown(each, 1)} s" if each else "none"


def _recovered(found: Mapping[str, Any], what: str) -> list[Round]:
    """A round of recovery_bench; VMs have no command that would end later than they answer."""
    rounds: list[Round] = []
    for entry in found[RECOVERY]["rounds"] if found[RECOVERY] else ():
        this = {Way(way): Took(**took["answered"]) for way, took in entry["vms"].items()}
        this |= {Way(way): Took(**took[what]) for way, took in entry["containers"].items()}
        rounds.append(this)
    return rounds


def _used(found: Mapping[str, Any]) -> list[Round]:
    if not found[USERS]:
        return []
    return [{Way(way): Took(**took) for way, took in entry.items()} for entry in found[USERS]["rounds"]]
