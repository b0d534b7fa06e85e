"""The marker file whose copy in the standby tells how old the standby is.

`at` is when it was stamped. `good_until` is a time up to which everything is known to have been sent, or null when
that is `at` itself. `queue` is the number of changes that lsyncd has seen and not sent.
"""

from __future__ import annotations

import json
import os
import re
import time
from typing import Callable, Optional

from .marks import Marks

NAME = "heartbeat"
#: `good_until` before the first whole sync.
NEVER = 0.0


def stamp(state_dir: str, at: float, good_until: Optional[float], queue: Optional[int] = None) -> None:
    """Replaces the marker at once."""
    os.makedirs(state_dir, mode=0o755, exist_ok=True)
    path = os.path.join(state_dir, NAME)
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump({"at": round(at, 3), "good_until": good_until, "queue": queue}, file)
        file.write("\n")
    os.replace(path + ".new", path)


def last_good(state_dir: str) -> Optional[float]:
    """What the last heartbeat, of an earlier run perhaps, vouched for."""
    try:
        with open(os.path.join(state_dir, NAME), encoding="utf-8") as file:
            found = json.load(file)
        good = found["good_until"] if found["good_until"] is not None else found["at"]
        return float(good)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def beat(
    state_dir: str, run_dir: str, every: float,
    now: Callable[[], float] = time.time, sleep: Callable[[float], None] = time.sleep,
) -> None:  # fmt: skip
    """Stamps every so many seconds, for ever."""
    good = last_good(state_dir) or NEVER
    marks = Marks(run_dir)
    while True:
        at = now()
        suspect = marks.any
        if not suspect:
            good = at
        stamp(state_dir, at, good if suspect else None, queue_length(os.path.join(run_dir, "lsyncd.status")))
        sleep(every)


def queue_length(status_file: str) -> Optional[int]:
    """How many changes lsyncd holds, from its status file; None if that cannot be read."""
    try:
        with open(status_file, encoding="utf-8", errors="replace") as file:
            found = re.search(r"^There are (\d+) delays", file.read(20000), re.M)
    except OSError:
        return None
    return int(found.group(1)) if found else None
