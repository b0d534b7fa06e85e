"""Figures 11a and 11b: the list of what is not synced, and the sync with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from exclude_bench.lists import KINDS, NAIVE, OURS, PAPER_RESOLVED

from .benches import EXCLUDES
from .figure import Figure, Head, Plot, Row, Values

_PATHS = {NAIVE: "about 30,000 paths", PAPER_RESOLVED: "74 paths, in less time", OURS: "not in the paper"}
_PAPERS = {"nothing changed": "16.5 s less than with it", "5 % changed": "16.5 s less than with it"}


LISTS = Head(
    "11a",
    "To make the exclude list",
    "Of about 30,000 files of the kernel's packages, the optimisation makes a list of 74 paths, and in less time.",
    (EXCLUDES,),
)
_LISTS_DIFFER = (
    (
        "All lists are made from package databases by the same reader. In the paper, the files were listed by hand "
        "where the optimisation is off, and the time is mostly that to write the list to a disk."
    ),
)
SYNCS = Head(
    "11b",
    "To sync with the exclude list",
    "Of 11 GB, a sync takes 16.5 seconds less with the optimised list, whether nothing or 600 MB have changed.",
    (EXCLUDES,),
)
_SYNCS_DIFFER = (
    "What a list costs depends on how many names are held against it, not on the bytes behind them.",
    "From and to the same machine's disk or memory, so that no network's time is in it.",
)


def lists(found: Mapping[str, Any]) -> Figure:
    costs = {cost["kind"]: cost for cost in found["lists"]}
    naive = _values(costs[NAIVE]["call"])
    rows, groups = [], {}
    for kind, paper in _PATHS.items():
        values = _values(costs[kind]["call"])
        groups[_name(kind)] = {"to make the list": values}
        rows.append(
            Row(
                _name(kind),
                paper,
                f"{costs[kind]['paths']:,} paths in {values.shown(3)} s",
                f"every file: {naive.shown(3)} s",
                f"{values.median / naive.median:.3f}",
                str(values.runs),
            )
        )
    size = f"The packages are generated: {found['unneeded']:,} files in a tree of {found['live']:,} paths."
    plot = Plot("figure-11a", f"11a: {LISTS.title}", "seconds", groups)
    return Figure(LISTS, rows, differs=(size, *_LISTS_DIFFER), plot=plot)


def syncs(found: Mapping[str, Any]) -> Figure:
    costs = {(cost["scenario"], cost["kind"]): cost for cost in found["rsync"]["costs"]}
    rows = []
    groups: dict[str, dict[str, Values | None]] = {}
    for scenario, paper in _PAPERS.items():
        naive = _values(costs[scenario, NAIVE]["wall"])
        groups[scenario] = {_name(NAIVE): naive}
        for kind in (PAPER_RESOLVED, OURS):
            values = _values(costs[scenario, kind]["wall"])
            groups[scenario][_name(kind)] = values
            rows.append(
                Row(
                    f"{scenario}: {_name(kind)}",
                    paper if kind == PAPER_RESOLVED else "not in the paper",
                    f"{values.shown(2)} s, {naive.median - values.median:,.2f} s less",
                    f"every file: {naive.shown(2)} s ({naive.runs} runs)",
                    f"{values.median / naive.median:.3f}",
                    str(values.runs),
                )
            )
    files, changed = found["rsync"]["files"], found["rsync"]["changed"]
    size = f"{files:,} small files in place of 11 GB; {changed:,} of them change where 5 % do."
    plot = Plot("figure-11b", f"11b: {SYNCS.title}", "seconds", groups)
    return Figure(SYNCS, rows, differs=(size, *_SYNCS_DIFFER), plot=plot)


def _name(kind: str) -> str:
    names = {NAIVE: "every file", PAPER_RESOLVED: "the paper's algorithm", OURS: "`exclude-list`"}
    assert kind in KINDS  # noqa: S101  the benchmark's own names
    return names[kind]


def _values(spread: Mapping[str, Any]) -> Values:
    return Values(**spread)
