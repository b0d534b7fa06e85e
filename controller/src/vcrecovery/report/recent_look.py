"""A look at everything that is good enough for a moment, whoever asks for it, and how often."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vcrecovery.operations.environment import Environment
from vcrecovery.plan.model import Plan
from vcrecovery.report.look import look
from vcrecovery.report.query_pool import QueryPool
from vcrecovery.report.view import ServiceView

if TYPE_CHECKING:
    from vcrecovery.detect.health_watch import HealthWatch

#: Seconds for everything that is asked; below Prometheus' own 10 s for a scrape.
WITHIN = 5.0
#: Seconds for which a look is good enough for the next one who asks.
KEPT = 2.0


@dataclass(frozen=True)
class Look:
    """What was seen, and how many seconds it took."""

    views: Sequence[ServiceView]
    took: float


class RecentLook:
    """Looks at most once every KEPT seconds."""

    def __init__(self, plan: Plan, within: float = WITHIN, health: HealthWatch | None = None) -> None:
        """`health`: who asks the services all the time, in the same program; without, they are asked for each look."""
        # Its own connections: nothing here gets into the way of a failover.
        self.env = Environment(plan)
        self.health = health
        self._within = within
        self._asker = QueryPool()
        self._one_at_a_time = threading.Lock()
        self._look: Look | None = None
        self._made_at = float("-inf")

    def look(self, kept: float = KEPT) -> Look:
        """One that is at most so many seconds old. Raises ExternalError when the journal cannot be used."""
        with self._one_at_a_time:
            begun = time.monotonic()
            if self._look is None or begun - self._made_at > kept:
                # Where nobody asks any more, what was heard last says nothing of now.
                courses = self.health.courses if self.health is not None and self.health.is_current() else None
                names = list(self.env.plan.services)
                views = look(self.env, names, self._asker, self._within, courses=courses)
                self._made_at = time.monotonic()
                self._look = Look(views, self._made_at - begun)
            return self._look
