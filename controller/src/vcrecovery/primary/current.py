"""The secondary that this VM's files go to, and what is known to be there of what was sent to another one before.

It lies in the run folder, as lines of ssh's configuration that come before the others; until somebody has asked (see
`receivers`), it is the first one, where the standby is at home.
"""

from __future__ import annotations

import json
import os
from typing import Dict, NamedTuple, Optional, Sequence

#: In the run folder.
CURRENT = "receiver"
COMMENT = "# "


class Current(NamedTuple):
    """`has_all_of`: the receiver that was sent to before, where this one has everything that was sent to it."""

    name: str
    has_all_of: str = ""


def current(run_dir: str, receivers: Sequence[str]) -> Optional[Current]:
    """The one that is sent to; None where there is one only."""
    if not receivers:
        return None
    found = written(run_dir)
    return found if found is not None and found.name in receivers else Current(receivers[0])


def written(run_dir: str) -> Optional[Current]:
    """What the file says, whether or not the plan still has that one; None without a file."""
    try:
        with open(os.path.join(run_dir, CURRENT), encoding="utf-8") as file:
            return Current(*(file.readline()[len(COMMENT) :].split() or [""])[:2])
    except OSError:
        return None


def still_vouched(good: float, sent_to: Optional[str], to: Optional[Current], never: float) -> float:
    """Up to when everything is known to be at `to`, of what was sent to `sent_to` up to `good`."""
    if to is None or sent_to in (to.name, to.has_all_of or None):
        return good
    return never


def sent_to(heartbeat: Dict[str, object], receivers: Sequence[str]) -> Optional[str]:
    """The receiver for which a heartbeat vouches; one of before there were several did for the first."""
    name = heartbeat.get("receiver")
    return name if isinstance(name, str) else receivers[0] if receivers else None


def read_json(path: str) -> Dict[str, object]:
    """Empty where there is none that can be read."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
