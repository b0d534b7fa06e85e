"""All that one benchmark found out."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from .scale import Scale
from .stage_database import DatabaseCost
from .stage_lists import ListCost
from .stage_lsyncd import EventCost
from .stage_rsync import SyncCosts
from .targets import Target


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


def as_json(results: Results) -> str:
    """For machines; a ratio that cannot be told, since our list costs nothing measurable, is null."""
    document = asdict(results)
    for entry, target in zip(document["targets"], results.targets, strict=True):
        entry["met"] = target.met
        if target.measured == float("inf"):
            entry["measured"] = None
    return json.dumps(document, indent=1) + "\n"
