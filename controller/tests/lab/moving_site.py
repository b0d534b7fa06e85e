"""Moves that have come to a step."""

from __future__ import annotations

import subprocess
from concurrent.futures import Future, ThreadPoolExecutor

from vcrecovery.core.episode import Step
from vcrecovery.store.journal import Journal

from .small_site import SmallSite
from .waiting import wait_for


def begun_move(site: SmallSite, name: str, step: Step) -> Future[subprocess.CompletedProcess[str]]:
    """A move to sec2 that has come to that step, or ended before."""
    pool = ThreadPoolExecutor(1)
    moving = pool.submit(site.vcrecovery, "move", name, "--to", "sec2")
    pool.shutdown(wait=False)

    def has_come() -> bool:
        episode = Journal(site.state / "journal.db").state(name).open_episode
        return moving.done() or (episode is not None and episode.tried(step))

    wait_for(has_come, f"step {step}", 120)
    return moving
