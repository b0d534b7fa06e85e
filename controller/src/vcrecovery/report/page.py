"""The page of figures: looks at everything, and renders it. The same for `vcrecovery metrics` and for the server."""

from __future__ import annotations

import threading
import time
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from vcrecovery.operations.environment import Environment
from vcrecovery.plan.model import Plan
from vcrecovery.report.exposition import render
from vcrecovery.report.look import look
from vcrecovery.report.metrics import families, latencies, outages
from vcrecovery.report.query_pool import QueryPool
from vcrecovery.store.outages import OutageBook

if TYPE_CHECKING:
    from vcrecovery.detect.health_watch import HealthWatch

#: Seconds for everything that is asked; below Prometheus' own 10 s for a scrape.
WITHIN = 5.0
#: Seconds for which a page is good enough for the next one who asks.
KEPT = 2.0


def _version() -> str:
    try:
        return version("vcrecovery")
    except PackageNotFoundError:
        return "unknown"


class Page:
    """Makes the page, at most once every KEPT seconds, whoever asks how often."""

    def __init__(self, plan: Plan, within: float = WITHIN, health: HealthWatch | None = None) -> None:
        """`health`: who asks the services all the time, in the same program; without, they are asked for each page."""
        # Its own connections: nothing here gets into the way of a failover.
        self._env = Environment(plan)
        self._within = within
        self._health = health
        self._asker = QueryPool()
        self._one_at_a_time = threading.Lock()
        self._text = ""
        self._made_at = float("-inf")

    def text(self) -> str:
        """Raises ExternalError when the journal cannot be used."""
        with self._one_at_a_time:
            begun = time.monotonic()
            if begun - self._made_at > KEPT:
                courses = self._health.courses if self._health is not None else None
                views = look(self._env, list(self._env.plan.services), self._asker, self._within, courses=courses)
                took = time.monotonic() - begun
                journal = self._env.journal
                found = families(views, journal.outcomes(), _version(), took) + outages(
                    list(self._env.plan.services), OutageBook(journal).totals()
                )
                if self._health is not None:
                    found.append(latencies(self._health.latencies))
                self._text = render(found)
                self._made_at = time.monotonic()
            return self._text
