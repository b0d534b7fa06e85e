"""Who serves, and how protected each service is, told to Zabbix.

Who serves is looked for in the journal, and told at once: a failover opens an episode before it fences, so that what
Zabbix shows of it begins before the fence ends the problem that called for it. All else is seen by a look at
everything, as for `vcrecovery status`: now and then, and when a service has changed hands.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from vcrecovery.core.service_state import Serving
from vcrecovery.detect.zabbix_way import RETRY_AFTER, ZabbixWay
from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.runtime import Event
from vcrecovery.keeping import SayOnce, go_on
from vcrecovery.plan.monitoring import Zabbix
from vcrecovery.relay.trapper import TIMEOUT
from vcrecovery.report.findings import Finding
from vcrecovery.report.view import ServiceView
from vcrecovery.report.zabbix_values import of_all, of_service, serves

log = logging.getLogger("vcrecovery.zabbix")

SAID = "who serves"
#: Seconds between two looks into the journal, and between two at everything.
LOOK_EVERY, ALL_EVERY = 0.5, 30.0
#: The item of the services' host beside those of each service.
CONTROLLER = "vcr.controller"


class ZabbixStatus:
    """Tells it until `stop` is set."""

    def __init__(
        self,
        zabbix: Zabbix,
        services: Sequence[str],
        clock: Clock,
        who_serves: Callable[[], Mapping[str, Serving]],
        look: Callable[[], Sequence[ServiceView]],
        more: Callable[[], Sequence[Finding]],
    ) -> None:
        """`look` looks at everything; `more`: findings about no service. Each may raise ExternalError."""
        self._services, self._clock = services, clock
        self._who_serves, self._look, self._more = who_serves, look, more
        self._way = ZabbixWay(zabbix, clock, SAID, timeout=TIMEOUT)
        self._told: dict[str, int] = {}
        self._all_at = clock.steady()
        self._say = SayOnce(log)

    def run(self, stop: Event) -> None:
        def turn() -> None:
            self.turn()
            if not self._way.send():
                stop.wait(LOOK_EVERY)

        trouble = f"Zabbix is not told {SAID}: {{}}; going on".format
        go_on(turn, stop=stop, say=self._say, about="turn", trouble=trouble, again_after=RETRY_AFTER)

    def turn(self) -> None:
        """Puts what is new on its way. Raises ExternalError when the journal cannot be used."""
        if self._way.came_back or self._way.has_refused:
            # Whatever it missed meanwhile, once its items are there.
            self._way.came_back = self._way.has_refused = False
            self._told.clear()
        if self._put_who_serves() or self._clock.steady() >= self._all_at:
            self._all_at = self._clock.steady() + ALL_EVERY
            self._put_all()

    def _put_who_serves(self) -> bool:
        """Whether one has changed hands."""
        found, changed = self._who_serves(), False
        for name in self._services:
            number = serves(found.get(name, Serving()))
            if self._told.get(name) != number:
                changed = True
                self._told[name] = number
                self._way.put(f"vcr.serves[{name}]", str(number), self._clock.now())
        if changed:
            # Before the look at everything, which takes seconds where something does not answer.
            self._way.send()
        return changed

    def _put_all(self) -> None:
        if self._way.away:
            return
        views = self._look()
        at = self._clock.now()
        for view in views:
            self._way.put(f"vcr.status[{view.name}]", of_service(view), at)
            # Again, as a sign of life.
            self._way.put(f"vcr.serves[{view.name}]", str(self._told[view.name]), at)
        self._way.put(CONTROLLER, of_all(views, self._more()), at)
