"""The results as a table to read; no colours, so that it reads the same everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .lists import KINDS
from .measure import Spread
from .results import Results
from .stage_rsync import NONE


def text(results: Results) -> str:
    """Everything that was measured, and a verdict for each target."""
    parts = [_lists(results), _database(results), _rsync(results), _lsyncd(results), _targets(results)]
    return "\n".join(parts)


def _lists(results: Results) -> str:
    rows = [
        (
            cost.kind,
            f"{cost.paths:,}",
            _spread(cost.process),
            _spread(cost.call),
            _megabytes(cost.peak_memory),
            f"{cost.faults.wrongly_excluded:,}",
            f"{cost.faults.needlessly_synced:,}",
        )
        for cost in results.lists
    ]
    heads = ("list", "paths", "process s", "call alone s", "peak MB", "lost files", "needless files")
    title = (
        f"Lists for {results.unneeded:,} files of kernel packages in a tree of {results.live:,} paths "
        f"({results.machine_paths:,} of this machine's own packages)"
    )
    notes = [f"  {kind}: {meaning}" for kind, meaning in KINDS.items()]
    notes += [
        "  lost: left out although no excluded package owns them (such as a DKMS module)",
        "  needless: synced although only excluded packages own or make them (such as /lib for /usr/lib, modules.dep)",
    ]
    return _section(title, heads, rows, notes)


def _database(results: Results) -> str:
    cost = results.database
    heads = ("command", "paths", "wall s", "CPU s", "peak MB")
    row = (
        "vcrecovery exclude-list",
        f"{cost.listed:,}",
        _spread(cost.wall),
        _spread(cost.cpu),
        _megabytes(cost.peak_memory),
    )
    return _section(f"Database of {cost.packages:,} packages, {cost.paths:,} paths", heads, [row], [])


def _rsync(results: Results) -> str:
    rows = [
        (
            cost.scenario,
            cost.kind,
            str(cost.wall.runs),
            _spread(cost.wall),
            _spread(cost.cpu),
            "" if cost.kind == NONE else _spread(cost.filter_wall),
            "" if cost.kind == NONE else _spread(cost.filter_cpu),
        )
        for cost in results.rsync.costs
    ]
    heads = ("rsync", "list", "runs", "wall s", "CPU s", "filter wall s", "filter CPU s")
    notes = [
        "  filter: above a run without a list on the tree without what our list leaves out, in the same round",
        "  paper: includes the stat of each file that it should leave out and does not",
        "  by hand: less for each file that it leaves out and should not",
    ]
    return _section(f"rsync of {results.rsync.files:,} files ({results.rsync.changed:,} changed)", heads, rows, notes)


def _lsyncd(results: Results) -> str:
    rows = [
        (cost.kind, f"{cost.events:,}", _spread(cost.per_event, 1e6, 1), _spread(cost.start, 1, 2))
        for cost in results.lsyncd
    ]
    heads = ("list", "events", "CPU us per event", "CPU s to start")
    return _section(f"lsyncd watching {results.watched:,} directories", heads, rows, [])


def _targets(results: Results) -> str:
    rows = [
        (
            target.name,
            target.shown,
            target.limit_shown,
            target.verdict,
        )
        for target in results.targets
    ]
    return _section("Targets", ("target", "measured", "limit", ""), rows, [])


def _section(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]], notes: Iterable[str]) -> str:
    lines = [heads, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    body = ["  " + "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([title, *body, *notes, ""])


def _spread(value: Spread, factor: float = 1, digits: int = 3) -> str:
    median, low, high = (f"{number * factor:.{digits}f}" for number in (value.median, value.low, value.high))
    return f"{median} ({low}..{high})"


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.0f}"
