"""Figure 15: a container that serves moves to another secondary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from move_bench.results import PAPER_DOWN, Moved, downs, ratios
from move_bench.ways import RSYNC, STATEFUL, STOPPED, WARM

from .benches import MOVES, MOVES_IN_VMS
from .figure import Figure, Head, Plot, Row, Values, shown

HEAD = Head(
    "15",
    "Migration time and downtime",
    "A running container of 807 to 945 MB moves between two VMs about as fast as without VMs, and is down for 5.4 to "
    "9.0 seconds.",
    (MOVES, MOVES_IN_VMS),
)
_DIFFERS = (
    "Both LXDs are on the machine itself, or in two VMs on it where that is said: a wire is not in it.",
    "`vcrecovery move` copies while the container serves, and once more after its stop; the paper's is LXD's own.",
    "Without CRIU, but for `--how stateful`: memory, processes and connections stay behind.",
)
_EMULATED = "The VMs' CPUs are emulated: only the ratios compare."
_WAYS = (WARM, STOPPED, RSYNC)


def moves(found: Mapping[str, Any]) -> Figure:
    low, high = PAPER_DOWN
    rows, differs = list[Row](), list[str]()
    void: list[str] = []
    plot = None
    if results := found[MOVES]:
        rounds = _rounds(results)
        rows += _rows(rounds, _WAYS, "")
        differs.append(f"The container has {_size(results)}.")
        times = {way: downs(rounds, way) for way in _WAYS}
        bars = {way: Values.of(each) if each else None for way, each in times.items()}
        bars["the paper's"] = Values((low + high) / 2, low, high, 0)
        plot = Plot("figure-15", "15: downtime", "seconds", {"down": bars})
    if results := found[MOVES_IN_VMS]:
        rows += _rows(_rounds(results), (WARM, STATEFUL, STOPPED, RSYNC), " in VMs")
        void += [f"in VMs, round {one['number']}: {one['way']}: {one['why']}" for one in results["missing"]]
        differs.append(f"In VMs the container has {_size(results)}.")
        differs += [_EMULATED] if results["vms"] == "qemu" else []
    return Figure(HEAD, rows, void, (*differs, *_DIFFERS), plot)


def _rounds(results: Mapping[str, Any]) -> list[dict[str, Moved]]:
    return [{way: Moved(**moved) for way, moved in entry.items()} for entry in results["rounds"]]


def _size(results: Mapping[str, Any]) -> str:
    return f"{results['scale']['megabytes']} MB in {results['scale']['files']:,} files"


def _rows(rounds: Sequence[Mapping[str, Moved]], ways: Sequence[str], where: str) -> Iterator[Row]:
    low, high = PAPER_DOWN
    ours = f"{WARM}: {shown(downs(rounds, WARM), 2)} s"
    for way in ways:
        times, ratio = downs(rounds, way), shown(ratios(rounds, way), 2)
        paper = f"{low} to {high} s" if way == STOPPED else ""
        beside = ("", "") if way == WARM else (ours, ratio)
        yield Row(f"down{where}, {way}", paper, f"{shown(times, 2)} s", *beside, _of(times, rounds))
    for way in ways:
        whole = [entry[way].seconds for entry in rounds if way in entry]
        yield Row(f"the whole{where}, {way}", "", f"{shown(whole, 1)} s", "", "", _of(whole, rounds))


def _of(figures: Sequence[float], rounds: Sequence[Mapping[str, Moved]]) -> str:
    return f"{len(figures)} of {len(rounds)}"
