"""Restore points while the watcher runs: each service's is made when it is due."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.drivers.runtime import Event
from vcrecovery.keeping import SayOnce, keep
from vcrecovery.plan.model import Plan
from vcrecovery.standby.restore_points import make

log = logging.getLogger("vcrecovery.watch")

_LOOK_EVERY = 30.0


def keep_making(plan: Plan, servers: Mapping[str, LxdServer], clock: Clock, stop: Event) -> None:
    """Returns when `stop` is set. The servers are its own: a copy of a tree may take long."""
    due = {name: service for name, service in plan.services.items() if service.restore_points.keep}

    def make_one(name: str) -> None:
        made = make(plan, name, servers[due[name].standby.secondary], clock)
        if made.point is not None:
            log.info("%s: %s", name, made.why)

    every = min(_LOOK_EVERY, *(entry.restore_points.every for entry in due.values())) if due else _LOOK_EVERY
    keep(due, make_one, every=every, stop=stop, say=SayOnce(log), trouble="no restore point")
