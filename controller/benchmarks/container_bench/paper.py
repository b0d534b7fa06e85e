"""What the paper says of containers in a VM (section V.C), as far as its text has figures: its plots have more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .loads import COPIES, FIO, NETWORK, UNIXBENCH

TOTAL = "total"
#: The loads whose ratios make up a row.
LOADS: Mapping[str, Sequence[str]] = {**{name: (name,) for name in (*UNIXBENCH, *FIO, NETWORK)}, TOTAL: UNIXBENCH}


@dataclass(frozen=True)
class Said:
    """`low` to `high` of the VM's performance, or only `words` where there is no figure."""

    words: str
    low: float | None = None
    high: float | None = None


_SLIGHTLY_LESS = Said("0.83 to 0.87", 0.83, 0.87)
_TENTH_LESS, _HALF = Said("0.90", 0.90, 0.90), Said("0.35 to 0.45", 0.35, 0.45)
_SEVENTH = Said("0.15", 0.15, 0.15)
_TOTAL = Said("0.92 to 0.93", 0.92, 0.93)
_AS_COPY = "as in UnixBench"

_SAID: dict[tuple[str, str], Said] = {
    **{(load, pool): _TENTH_LESS for load in COPIES for pool in ("dir", "lvm")},
    **{(load, "btrfs"): _HALF for load in COPIES},
    **{(load, "zfs"): _SEVENTH for load in COPIES},
    **{(TOTAL, pool): _TOTAL for pool in ("dir", "lvm")},
    **{("sequential read", pool): Said(f"0.90, {_AS_COPY}", 0.90, 0.90) for pool in ("dir", "lvm")},
    ("sequential read", "btrfs"): Said(f"0.35 to 0.45, {_AS_COPY}", 0.35, 0.45),
    **{("sequential write", pool): Said("slightly above 1") for pool in ("dir", "lvm")},
    ("random read", "dir"): Said("much above 1, unexplained"),
    ("random write", "dir"): Said("almost 1"),
    ("random write", "btrfs"): Said("much above 1"),
}
_ON_EACH = {
    "pipe": _SLIGHTLY_LESS,
    "context switch": _SLIGHTLY_LESS,
    "system call": _SLIGHTLY_LESS,
    NETWORK: Said("1.00", 1.0, 1.0),
}
NOTHING = Said("in the plot only")


def said(load: str, pool: str) -> Said:
    """Of a load, or the total, on a pool of this driver."""
    return _SAID.get((load, pool)) or _ON_EACH.get(load, NOTHING)
