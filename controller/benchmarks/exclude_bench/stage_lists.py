"""Stage 1: how long each list is, what it costs to make and what is wrong with it."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from vcrecovery_lab.progress import stderr_progress

from .kernel import PATTERNS
from .lists import KINDS
from .measure import Spread, measured, peak_memory, spread
from .root import Root
from .truth import Faults, faults

_TIMEOUT_SECONDS = 120


@dataclass(frozen=True)
class ListCost:
    """One way to make a list. `process` (with the interpreter's start) and `call` are seconds."""

    kind: str
    paths: int
    process: Spread
    call: Spread
    peak_memory: int
    """Bytes."""
    faults: Faults


@dataclass(frozen=True)
class ListFiles:
    """Where a list is, in two dialects, and what is on it."""

    rsync: Path
    lsyncd: Path
    paths: frozenset[bytes]


def measure_lists(root: Root, folder: Path, runs: int) -> tuple[list[ListCost], dict[str, ListFiles]]:
    """Makes each list `runs` times, in turns: what else the machine does then meets all of them."""
    answers: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    with stderr_progress(f"lists: {runs} runs of each of {len(KINDS)}"):
        for _ in range(runs):
            for kind in KINDS:
                usage = measured(_command(kind, root, folder), timeout=_TIMEOUT_SECONDS)
                answers[kind].append((usage.wall, json.loads(usage.output)["seconds"]))
        memory = {kind: peak_memory(_command(kind, root, folder), timeout=_TIMEOUT_SECONDS) for kind in KINDS}
    files = {kind: _files(_stem(kind, folder)) for kind in KINDS}
    costs = [
        ListCost(
            kind=kind,
            paths=len(files[kind].paths),
            process=spread([process for process, _ in values]),
            call=spread([call for _, call in values]),
            peak_memory=memory[kind],
            faults=faults(root.live, files[kind].paths, root.unneeded),
        )
        for kind, values in answers.items()
    ]
    return costs, files


def _command(kind: str, root: Root, folder: Path) -> list[str]:
    return [sys.executable, "-m", "exclude_bench.worker", kind, str(root.path), str(_stem(kind, folder)), *PATTERNS]


def file_name(kind: str) -> str:
    return kind.replace(", ", "-").replace(" ", "-")


def _stem(kind: str, folder: Path) -> Path:
    return folder / file_name(kind)


def _files(stem: Path) -> ListFiles:
    paths = frozenset(Path(f"{stem}.paths").read_bytes().split(b"\0")) - {b""}
    return ListFiles(Path(f"{stem}.rsync"), Path(f"{stem}.lsyncd"), paths)
