"""How long is looked at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Seconds before the moves begin and after they have ended; `megabytes` of each container."""

    before: float
    after: float
    megabytes: int


FULL, QUICK = Scale(30.0, 30.0, 50), Scale(4.0, 4.0, 2)
