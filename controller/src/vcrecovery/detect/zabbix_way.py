"""The way of one host's values to Zabbix: queued while it is away, tried again, and what is said of that."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.runtime import Event
from vcrecovery.errors import ExternalError
from vcrecovery.keeping import SayOnce, go_on
from vcrecovery.plan.monitoring import Zabbix
from vcrecovery.relay.outbox import Outbox, Value
from vcrecovery.relay.trapper import TIMEOUT, Trapper

log = logging.getLogger("vcrecovery.zabbix")

#: Seconds between two tries while Zabbix does not answer.
RETRY_AFTER = 1.0
#: Zabbix knows new items after a minute or two. Refused for longer than that, something is missing there.
REFUSED_FOR = 180.0
#: Values that wait for Zabbix, beside the newest of each item.
CAPACITY = 10_000


class ZabbixWay:
    """Of the services' host. `what`: what these values are, in a sentence on that Zabbix is not told it."""

    def __init__(
        self,
        zabbix: Zabbix,
        clock: Clock,
        what: str,
        *,
        capacity: int = CAPACITY,
        timeout: float = TIMEOUT,
        retry_after: float = RETRY_AFTER,
    ) -> None:
        self.host = zabbix.services_host
        #: Whether Zabbix did not answer the last time.
        self.away = False
        #: Set when it answers again, and when it has refused a value: whoever reads them resets them.
        self.came_back = self.has_refused = False
        self._what, self._clock, self._retry_after = what, clock, retry_after
        self._trapper = Trapper(str(zabbix.trapper.address), zabbix.trapper.port, timeout)
        self._outbox = Outbox(capacity)
        self._try_at = float("-inf")
        self._refused_at: float | None = None
        self._say = SayOnce(log)

    def put(self, key: str, text: str, at: float) -> None:
        """`at`: since the epoch."""
        self._outbox.put(Value(self.host, key, text, at))

    def run(self, stop: Event, turn: Callable[[], None], every: float) -> None:
        """`turn`, which may put something and may raise ExternalError, and what waits, until `stop` is set.

        `every`: seconds to the next turn, when nothing waits.
        """

        def once() -> None:
            turn()
            if not self.send():
                stop.wait(every)

        trouble = f"Zabbix is not told {self._what}: {{}}; going on".format
        go_on(once, stop=stop, say=self._say, about="turn", trouble=trouble, again_after=self._retry_after)

    def send(self) -> bool:
        """Whether something was sent, so that more may wait."""
        now = self._clock.steady()
        batch = self._outbox.batch(now) if now >= self._try_at else []
        if not batch:
            return False
        try:
            failed = asyncio.run(self._trapper.send(batch))
        except Exception as error:
            self._outbox.give_back(batch)
            if not isinstance(error, ExternalError):
                raise
            self._try_at = self._clock.steady() + self._retry_after
            if not self.away:
                self.away = True
                log.error("Zabbix is not told %s: %s", self._what, error)
            return False
        if self.away:
            self.away, self.came_back = False, True
            log.info("Zabbix is told again %s", self._what)
        self._learn(batch, failed, now)
        return True

    def _learn(self, batch: list[Value], failed: int, now: float) -> None:
        if not failed:
            self._outbox.taken(batch)
            if self._outbox.due_in(now) is None:
                self._refused_at = None
                self._say.well("items")
            return
        self._outbox.refused(batch, failed, now)
        self.has_refused = True
        if self._refused_at is None:
            self._refused_at = now
        elif now - self._refused_at >= REFUSED_FOR:
            self._say(
                "items",
                f"Zabbix refuses {self._what}: it has no host {self.host}, or not all items there;"
                " run the role `monitoring`, or correct zabbix.services_host",
            )
