"""Stage 4: what each list costs the real lsyncd for each file that is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vcrecovery.errors import ExternalError
from vcrecovery_lab.progress import stderr_progress

from .daemon import watching
from .lists import NAIVE, TIMED
from .measure import Spread, spread
from .scale import Scale
from .stage_lists import ListFiles
from .stage_rsync import NONE

# Written at once: the kernel's queue of events holds 16,384 by default.
_WRITTEN_FILES = 1_000


@dataclass(frozen=True)
class EventCost:
    """CPU seconds of lsyncd with one list."""

    kind: str
    events: int
    per_event: Spread
    start: Spread
    """To read the list and to watch every directory."""


def measure_lsyncd(files: Mapping[str, ListFiles], folder: Path, scale: Scale) -> list[EventCost]:
    """Runs lsyncd with every list in turns on one tree, and writes to files that no list leaves out."""
    source = folder / "watched"
    directories = _tree(source, scale.watched_directories)
    written = [directory / "state" for directory in directories[-_WRITTEN_FILES:]]
    lists = {NONE: None, **{kind: files[kind].lsyncd for kind in TIMED}}
    per_event: dict[str, list[float]] = {kind: [] for kind in lists}
    start: dict[str, list[float]] = {kind: [] for kind in lists}
    for turn in range(scale.lsyncd_rounds):
        for kind, exclude_from in lists.items():
            if kind == NAIVE and turn:
                continue
            events = _events(kind, scale)
            with (
                stderr_progress(f"lsyncd: round {turn + 1} of {scale.lsyncd_rounds}, {events:,} events, list: {kind}"),
                watching(source, exclude_from, folder, len(directories)) as lsyncd,
            ):
                before = lsyncd.cpu()
                start[kind].append(before)
                for done in range(0, events, len(written)):
                    _write(written, min(len(written), events - done))
                    lsyncd.wait_idle()
                per_event[kind].append((lsyncd.cpu() - before) / events)
                seen = lsyncd.seen() - 1
                if seen != events:
                    raise ExternalError(f"lsyncd saw {seen:,} of {events:,} events")
    return [EventCost(kind, _events(kind, scale), spread(per_event[kind]), spread(start[kind])) for kind in lists]


def _events(kind: str, scale: Scale) -> int:
    return scale.naive_events if kind == NAIVE else scale.events


def _tree(source: Path, count: int) -> Sequence[Path]:
    """So many directories with a file each; the list of them, the source included."""
    source.mkdir()
    directories = [source, source / "srv"]
    number = 0
    while len(directories) < count:
        parent = source / "srv" / f"{number:03d}"
        directories += [parent, *(parent / name for name in ("data", "log", "spool", "cache"))]
        number += 1
    directories = directories[:count]
    for directory in directories:
        directory.mkdir(exist_ok=True)
        (directory / "state").touch()
    return directories


def _write(paths: Sequence[Path], count: int) -> None:
    """One event per write: no file is written twice, which lsyncd might make one event."""
    for path in paths[:count]:
        path.write_bytes(b"changed")
