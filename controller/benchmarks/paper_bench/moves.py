"""Figure 15: a container that serves moves to another secondary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from move_bench.results import PAPER_DOWN, Moved, downs
from move_bench.ways import RSYNC, STOPPED, WARM

from .benches import MOVES
from .figure import Figure, Head, Plot, Row, Values, shown

HEAD = Head(
    "15",
    "Migration time and downtime",
    "A running container of 807 to 945 MB moves between two VMs about as fast as without VMs, and is down for 5.4 to "
    "9.0 seconds.",
    (MOVES,),
)
_DIFFERS = (
    "Both LXDs are on the machine itself: what VMs add is not in it, nor is a wire.",
    "`vcrecovery move` copies while the container serves, and once more after its stop; the paper's is LXD's own.",
    "Without CRIU: memory, processes and connections stay behind.",
)


def moves(found: Mapping[str, Any]) -> Figure:
    rounds = [{way: Moved(**moved) for way, moved in entry.items()} for entry in found["rounds"]]
    low, high = PAPER_DOWN
    rows = []
    bars: dict[str, Values | None] = {}
    for way in (WARM, STOPPED, RSYNC):
        times = downs(rounds, way)
        ratios = _ratios(rounds, way)
        against = "" if way == WARM else f"{WARM}: {shown(downs(rounds, WARM), 2)} s"
        paper = f"{low} to {high} s" if way == STOPPED else ""
        rows.append(
            Row(
                f"down, {way}",
                paper,
                f"{shown(times, 2)} s",
                against,
                shown(ratios, 2) if against else "",
                _of(times, rounds),
            )
        )
        bars[way] = Values.of(times) if times else None
    for way in (WARM, STOPPED, RSYNC):
        whole = [entry[way].seconds for entry in rounds]
        rows.append(Row(f"the whole, {way}", "", f"{shown(whole, 1)} s", "", "", _of(whole, rounds)))
    bars["the paper's"] = Values((low + high) / 2, low, high, 0)
    size = f"The container has {found['scale']['megabytes']} MB in {found['scale']['files']:,} files."
    plot = Plot("figure-15", "15: downtime", "seconds", {"down": bars})
    return Figure(HEAD, rows, (), (size, *_DIFFERS), plot)


def _ratios(rounds: Sequence[Mapping[str, Moved]], way: str) -> list[float]:
    both = [(entry[way].down, entry[WARM].down) for entry in rounds]
    return [theirs / mine for theirs, mine in both if theirs and mine]


def _of(figures: Sequence[float], rounds: Sequence[Mapping[str, Moved]]) -> str:
    return f"{len(figures)} of {len(rounds)}"
