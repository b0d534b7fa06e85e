"""Stage 3: what each list costs the real rsync.

The time that rsync spends on filtering is isolated by a second source tree: it holds hard links to the same files,
but nothing that vcrecovery's list leaves out, and is synced without any list. What a run with a list takes longer is
the list's: reading it, comparing names with it, and reading the names of what it leaves out. Each pair of source and
list has a destination of its own that holds what a sync would have left there, so that nothing but the 5 % that were
changed is ever sent. CPU time is that of all three rsync processes; with two cores it is up to twice the wall time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vcrecovery.errors import ExternalError
from vcrecovery_lab.progress import stderr_progress

from .lists import NAIVE, OURS, TIMED
from .measure import Spread, Usage, measured, spread
from .root import Root
from .scale import Scale
from .stage_lists import ListFiles, file_name
from .tree import every_nth_changed, linked_copy
from .truth import excluded_paths

NONE = "none"
NOTHING_CHANGED = "nothing changed"
SOME_CHANGED = "5 % changed"
_CHANGED_SHARE = 0.05
_TIMEOUT_SECONDS = 600
_COUNT = re.compile(rb"^Number of (files|regular files transferred): ([\d,]+)(?: \((.*)\))?$", re.MULTILINE)


@dataclass(frozen=True)
class SyncCost:
    """Seconds of one scenario with one list; the filter's are those above the run without a list next to it."""

    scenario: str
    kind: str
    wall: Spread
    cpu: Spread
    filter_wall: Spread
    filter_cpu: Spread


@dataclass(frozen=True)
class SyncCosts:
    """All runs; `files` and `changed` say how large the synced tree was."""

    files: int
    changed: int
    costs: list[SyncCost]


@dataclass(frozen=True)
class _Pair:
    """A source, its destination, and the list between them."""

    source: Path
    destination: Path
    exclude_from: Path | None
    files: int
    """Regular files, symlinks and directories that rsync has to find."""


def measure_rsync(root: Root, files: Mapping[str, ListFiles], folder: Path, scale: Scale) -> SyncCosts:
    """Syncs with every list in turns, so that what else the machine does meets all of them."""
    bare = folder / "bare"
    with stderr_progress("rsync: source without what is excluded, destinations"):
        pairs = _pairs(root, files, folder, bare)
    synced = sum(not is_directory for is_directory in root.live.values()) - len(root.unneeded)
    changed = round(synced * _CHANGED_SHARE)
    usages: dict[tuple[str, str], list[tuple[Usage, Usage]]] = {}
    naive_rounds = scale.rsync_rounds
    _run(pairs[NONE], 0)  # reads the tree into the page cache
    for turn in range(scale.rsync_rounds):
        kinds = [kind for kind in pairs if kind != NAIVE or turn < naive_rounds]
        for scenario in (NOTHING_CHANGED, SOME_CHANGED):
            if scenario == SOME_CHANGED:
                every_nth_changed((root.path, bare), root.data, changed, turn)
            first = turn % len(kinds)
            results: dict[str, Usage] = {}
            for kind in kinds[first:] + kinds[:first]:
                with stderr_progress(f"rsync: round {turn + 1} of {scale.rsync_rounds}, {scenario}, list: {kind}"):
                    results[kind] = _run(pairs[kind], changed if scenario == SOME_CHANGED else 0)
            for kind, usage in results.items():
                usages.setdefault((scenario, kind), []).append((usage, results[NONE]))
        if turn == 0:
            # As many rounds with the naive list as fit; the first one tells how long they are.
            first_round = sum(usages[scenario, NAIVE][0][0].wall for scenario in (NOTHING_CHANGED, SOME_CHANGED))
            naive_rounds = max(1, int(scale.naive_seconds // first_round))
    costs = [_cost(scenario, kind, runs) for (scenario, kind), runs in usages.items()]
    order = list(pairs)
    costs.sort(key=lambda cost: (cost.scenario != NOTHING_CHANGED, order.index(cost.kind)))
    return SyncCosts(synced, changed, costs)


def _pairs(root: Root, files: Mapping[str, ListFiles], folder: Path, bare: Path) -> dict[str, _Pair]:
    ours = excluded_paths(root.live, files[OURS].paths)
    linked_copy(root.path, bare, ours)
    pairs = {NONE: _Pair(bare, folder / "to-none", None, len(root.live) - len(ours))}
    linked_copy(bare, pairs[NONE].destination, frozenset())
    for kind in TIMED:
        excluded = excluded_paths(root.live, files[kind].paths)
        destination = folder / f"to-{file_name(kind)}"
        pairs[kind] = _Pair(root.path, destination, files[kind].rsync, len(root.live) - len(excluded))
        linked_copy(root.path, destination, excluded)
    return pairs


def _run(pair: _Pair, changed: int) -> Usage:
    argv = ["rsync", "-a", "--delete", "--stats"]
    argv += ["--exclude-from", str(pair.exclude_from)] if pair.exclude_from else []
    usage = measured([*argv, f"{pair.source}/", f"{pair.destination}/"], timeout=_TIMEOUT_SECONDS)
    counts = {name: int(number.replace(b",", b"")) for name, number, _ in _COUNT.findall(usage.output)}
    # The root itself is the one path that rsync counts and the tree does not.
    expected = {b"files": pair.files + 1, b"regular files transferred": changed}
    if counts != expected:
        raise ExternalError(
            f"rsync with {pair.exclude_from or 'no list'} synced other files than the list says: "
            f"{_shown(counts)} instead of {_shown(expected)}"
        )
    return usage


def _shown(counts: Mapping[bytes, int]) -> str:
    return ", ".join(f"{count:,} {name.decode()}" for name, count in counts.items())


def _cost(scenario: str, kind: str, runs: list[tuple[Usage, Usage]]) -> SyncCost:
    return SyncCost(
        scenario=scenario,
        kind=kind,
        wall=spread([usage.wall for usage, _ in runs]),
        cpu=spread([usage.cpu for usage, _ in runs]),
        filter_wall=spread([usage.wall - none.wall for usage, none in runs]),
        filter_cpu=spread([usage.cpu - none.cpu for usage, none in runs]),
    )
