"""Who serves, and how protected each service is, told to Zabbix.

Who serves is looked for in the journal, and told at once: a failover opens an episode before it fences, so that what
Zabbix shows of it begins before the fence ends the problem that called for it. All else is seen by a look at
everything, as for `vcrecovery status`: now and then, and when a service has changed hands. It takes seconds where
something does not answer, so it is another thread's, and it is never made twice in a row: a failover of many services
is not to be slowed down by who looks on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from vcrecovery.core.service_state import Serving
from vcrecovery.detect.zabbix_health import LIST, LIST_AGAIN_AFTER, listed
from vcrecovery.detect.zabbix_way import ZabbixWay
from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.runtime import Event
from vcrecovery.plan.monitoring import Zabbix
from vcrecovery.relay.trapper import TIMEOUT
from vcrecovery.report.findings import Finding
from vcrecovery.report.view import ServiceView
from vcrecovery.report.zabbix_values import of_all, of_service, serves

WHO_SERVES, STATUS = "who serves", "how protected the services are"
#: Seconds between two looks into the journal, and between two signs that it goes on.
LOOK_EVERY, SIGN_EVERY = 0.5, 30.0
#: Seconds between two looks at everything, and the least between two where services change hands.
ALL_EVERY, ALL_AGAIN_AFTER = 30.0, 5.0
#: The item of the services' host beside those of each service.
CONTROLLER = "vcr.controller"


class ZabbixStatus:
    """A look at everything, told until `stop` is set."""

    def __init__(
        self,
        zabbix: Zabbix,
        clock: Clock,
        look: Callable[[], Sequence[ServiceView]],
        more: Callable[[], Sequence[Finding]],
    ) -> None:
        """`look` looks at everything; `more`: findings about no service. Each may raise ExternalError."""
        self._clock, self._look, self._more = clock, look, more
        self._way = ZabbixWay(zabbix, clock, STATUS, timeout=TIMEOUT)
        self._all_at = self._again_at = clock.steady()
        self._soon = False

    def soon(self) -> None:
        """A service has changed hands. For any thread."""
        self._soon = True

    def run(self, stop: Event) -> None:
        self._way.run(stop, self._turn, LOOK_EVERY)

    def _turn(self) -> None:
        now = self._clock.steady()
        if self._way.came_back:
            self._way.came_back, self._soon = False, True
        if self._way.away or now < (self._again_at if self._soon else self._all_at):
            return
        self._soon = False
        try:
            views = self._look()
        finally:
            # Also when it fails: what does not answer is not asked all the time.
            ended = self._clock.steady()
            self._all_at, self._again_at = ended + ALL_EVERY, ended + ALL_AGAIN_AFTER
        at = self._clock.now()
        for view in views:
            self._way.put(f"vcr.status[{view.name}]", of_service(view), at)
        self._way.put(CONTROLLER, of_all(views, self._more()), at)


class ZabbixServing:
    """Who serves each of the `services`, told until `stop` is set; `changed` is called when one has changed hands."""

    def __init__(
        self,
        zabbix: Zabbix,
        services: Sequence[str],
        clock: Clock,
        who_serves: Callable[[], Mapping[str, Serving]],
        changed: Callable[[], None],
    ) -> None:
        """`who_serves` may raise ExternalError."""
        self._services, self._clock = services, clock
        self._who_serves, self._changed = who_serves, changed
        self._way = ZabbixWay(zabbix, clock, WHO_SERVES, timeout=TIMEOUT)
        self._told: dict[str, int] = {}
        self._sign_at = clock.steady()
        self._list_at = clock.steady()

    def run(self, stop: Event) -> None:
        self._way.run(stop, self._turn, LOOK_EVERY)

    def _turn(self) -> None:
        now, at = self._clock.steady(), self._clock.now()
        if self._way.came_back:
            self._way.came_back = False
            self._sign_at = now
        if self._way.has_refused and now >= self._list_at:
            # Its template may have been imported after the list had come.
            self._way.has_refused, self._list_at = False, now + LIST_AGAIN_AFTER
            self._way.put(LIST, listed(self._services), at)
        is_due = now >= self._sign_at and not self._way.away
        if is_due:
            self._sign_at = now + SIGN_EVERY
        found, has_changed = self._who_serves(), False
        for name in self._services:
            number = serves(found.get(name, Serving()))
            is_new = self._told.get(name) != number
            has_changed |= is_new
            if is_new or is_due:
                self._told[name] = number
                self._way.put(f"vcr.serves[{name}]", str(number), at)
        if has_changed:
            self._changed()
