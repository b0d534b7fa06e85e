"""The page of figures: looks at everything, and renders it. The same for `vcrecovery metrics` and for the server."""

from __future__ import annotations

import threading
from importlib.metadata import PackageNotFoundError, version

from vcrecovery.report.exposition import render
from vcrecovery.report.metrics import families, latencies, outages, secondaries
from vcrecovery.report.recent_look import Look, RecentLook
from vcrecovery.store.drained import DrainedBook
from vcrecovery.store.load_book import LoadBook
from vcrecovery.store.outages import OutageBook


def _version() -> str:
    try:
        return version("vcrecovery")
    except PackageNotFoundError:
        return "unknown"


class Page:
    """Makes the page, once for each look."""

    def __init__(self, recent: RecentLook) -> None:
        self._recent = recent
        self._one_at_a_time = threading.Lock()
        self._of: Look | None = None
        self._text = ""

    def text(self) -> str:
        """Raises ExternalError when the journal cannot be used."""
        with self._one_at_a_time:
            seen = self._recent.look()
            if seen is not self._of:
                journal, health = self._recent.env.journal, self._recent.health
                found = families(seen.views, journal.outcomes(), _version(), seen.took)
                env = self._recent.env
                found += outages(list(env.plan.services), OutageBook(journal).totals(env.clock.now()))
                loads = LoadBook(env.plan.state_dir).read(env.clock.now())
                found += secondaries(loads, DrainedBook(journal).all(), env.plan.secondaries)
                if health is not None:
                    found.append(latencies(health.latencies))
                self._text, self._of = render(found), seen
            return self._text
