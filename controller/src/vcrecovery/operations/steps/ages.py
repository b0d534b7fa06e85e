"""How old a standby's files are, as a failure sees it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vcrecovery.core.sighting import OffTime, ran_for
from vcrecovery.transfer.freshness import Freshness, from_the_future


@dataclass(frozen=True)
class Ages:
    """Of a standby's files, and of its newest heartbeat, in seconds; None when not known, which `detail` explains."""

    files: float | None
    heard: float | None
    detail: str = ""


def ages_of(fresh: Freshness, *, began_at: float, noticed_at: float, now: float, off: Sequence[OffTime] = ()) -> Ages:
    """How old the files were when the failure began, and how long before it was noticed a heartbeat was heard.

    While the primary was `off` it wrote nothing: that time does not count. A heartbeat from the future says nothing
    about either: a clock was set, and nobody knows which one is right.
    """
    if why := from_the_future(fresh, now):
        return Ages(None, None, why)
    # What the failure can have cost is counted up to when it began, not up to now.
    files = None if fresh.synced_through is None else ran_for(fresh.synced_through, began_at, off)
    heard = None if fresh.heard_at is None else max(0.0, noticed_at - fresh.heard_at)
    return Ages(files, heard, fresh.detail)
