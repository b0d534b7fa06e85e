"""Restore points while the watcher runs: each service's is made when it is due."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.plan.model import Plan
from vcrecovery.standby.restore_points import make

log = logging.getLogger("vcrecovery.watch")

_LOOK_EVERY = 30.0


def keep_making(plan: Plan, servers: Mapping[str, LxdServer], clock: Clock, stop: threading.Event) -> None:
    """Returns when `stop` is set. The servers are its own: a copy of a tree may take long."""
    due = {name: service for name, service in plan.services.items() if service.restore_points.keep}
    said: dict[str, str] = {}
    while due and not stop.wait(min(_LOOK_EVERY, *(entry.restore_points.every for entry in due.values()))):
        for name, service in due.items():
            try:
                made = make(plan, name, servers[service.standby.secondary], clock)
            except Exception as error:  # noqa: BLE001  nobody would miss a thread that ends
                if said.get(name) != str(error):
                    log.warning("%s: no restore point: %s", name, error)
                said[name] = str(error)
            else:
                said.pop(name, None)
                if made.point is not None:
                    log.info("%s: %s", name, made.why)
