"""Restore points while the watcher runs: each service's is made when it is due, and what failbacks keep committed."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from vcrecovery.core.failback import commit_after, is_to_be_committed, kept_by
from vcrecovery.core.text import span
from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.drivers.runtime import Event
from vcrecovery.keeping import SayOnce, keep
from vcrecovery.plan.model import Plan
from vcrecovery.standby.kept_points import commit
from vcrecovery.standby.restore_points import make
from vcrecovery.store.journal import Journal

log = logging.getLogger("vcrecovery.watch")

_LOOK_EVERY = 30.0


def keep_making(plan: Plan, servers: Mapping[str, LxdServer], journal: Journal, clock: Clock, stop: Event) -> None:
    """Returns when `stop` is set. The servers are its own: a copy of a tree may take long."""
    due = {name: service for name, service in plan.services.items() if service.restore_points.keep}

    def make_one(name: str) -> None:
        made = make(plan, name, servers[due[name].standby.secondary], journal, clock)
        if made.point is not None:
            log.info("%s: %s", name, made.why)

    #: With the service: those of a group that went back in the same second have one name.
    gone: set[tuple[str, str]] = set()

    def commit_one(name: str) -> None:
        for failback in journal.failbacks(name):
            kept = kept_by(failback)
            if kept is None or not kept.restore_point or (name, kept.restore_point) in gone:
                continue
            if not is_to_be_committed(failback, clock.now()):
                continue
            episode = journal.state(name).open_episode
            if episode is not None and episode.has_acted:
                return  # it may lead back there
            lxd = servers[plan.services[name].standby.secondary]
            if commit(plan, name, lxd, journal, clock, [kept.restore_point]):
                after = span(commit_after(failback))
                log.info("%s: failback committed after %s: %s removed", name, after, kept.restore_point)
            gone.add((name, kept.restore_point))

    def see_to(name: str) -> None:
        commit_one(name)
        if name in due:
            make_one(name)

    every = min(_LOOK_EVERY, *(entry.restore_points.every for entry in due.values())) if due else _LOOK_EVERY
    keep(plan.services, see_to, every=every, stop=stop, say=SayOnce(log), trouble="no restore point")
