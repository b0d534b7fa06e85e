"""What a list leaves out of a live tree, and what is wrong with that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass


@dataclass(frozen=True)
class Faults:
    """Counts of files and symlinks, directories not counted."""

    wrongly_excluded: int
    """Left out although no excluded package owns or makes them: lost in a standby."""
    needlessly_synced: int
    """Synced although only excluded packages own or make them."""
    synced: int


def excluded_paths(live: Mapping[bytes, bool], listed: Iterable[bytes]) -> set[bytes]:
    """The live paths that are listed or below a listed one; `live` has each directory before what is in it."""
    wanted = set(listed)
    found: set[bytes] = set()
    for path in live:
        if path in wanted or path.rpartition(b"/")[0] in found:
            found.add(path)
    return found


def faults(live: Mapping[bytes, bool], listed: Iterable[bytes], unneeded: Set[bytes]) -> Faults:
    """Holds a list against what a right one leaves out."""
    excluded = {path for path in excluded_paths(live, listed) if not live[path]}
    files = sum(not is_directory for is_directory in live.values())
    return Faults(len(excluded - unneeded), len(unneeded - excluded), files - len(excluded))
