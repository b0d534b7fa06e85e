"""All that one benchmark found out."""

from __future__ import annotations

from dataclasses import dataclass

from .scale import Scale
from .stage_database import DatabaseCost
from .stage_lists import ListCost
from .stage_lsyncd import EventCost
from .stage_rsync import SyncCosts
from .target import Target


@dataclass(frozen=True)
class Results:
    """Seconds and bytes everywhere."""

    scale: Scale
    seed: int
    live: int
    """Paths of the tree."""
    machine_paths: int
    """Those of the machine's own packages, directories not counted."""
    unneeded: int
    """Files that a right list leaves out."""
    watched: int
    lists: list[ListCost]
    database: DatabaseCost
    rsync: SyncCosts
    lsyncd: list[EventCost]
    targets: list[Target]
