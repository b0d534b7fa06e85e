"""A way to Zabbix: an outbox, and the task that empties it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from vcrecovery.errors import ExternalError
from vcrecovery.relay.outbox import Outbox, Value
from vcrecovery.relay.trapper import Trapper

log = logging.getLogger("vcrecovery.relay")

#: Seconds between two tries while Zabbix does not answer.
RETRY_DELAY = 1.0


class SendQueue:
    """States and measurements have one each, so that a state never waits behind measurements.

    `on_refused` is told of hosts of which Zabbix refused values.
    """

    def __init__(self, what: str, trapper: Trapper, capacity: int, on_refused: Callable[[str], None]) -> None:
        self.outbox = Outbox(capacity)
        self.sent = 0
        self._what = what
        self._trapper = trapper
        self._on_refused = on_refused
        self._came = asyncio.Event()
        self._said = ""
        self._refusing: set[str] = set()

    def put(self, value: Value) -> None:
        """Never waits."""
        self.outbox.put(value)
        self._came.set()

    async def run(self) -> None:
        """Sends until it is cancelled."""
        while True:
            self._came.clear()
            batch = self.outbox.batch(time.monotonic())
            if batch:
                await self._send(batch)
            else:
                wait = self.outbox.due_in(time.monotonic())
                try:
                    async with asyncio.timeout(wait):
                        await self._came.wait()
                except TimeoutError:
                    pass

    async def _send(self, batch: list[Value]) -> None:
        try:
            failed = await self._trapper.send(batch)
        except ExternalError as error:
            self.outbox.give_back(batch)
            if error.message != self._said:
                self._said = error.message
                log.error("%s wait: %s", self._what, error)
            await asyncio.sleep(RETRY_DELAY)
            return
        if self._said:
            self._said = ""
            log.info("Zabbix answers again: %d %s to send, %d lost", len(self.outbox), self._what, self.outbox.dropped)
        self.sent += len(batch) - failed
        hosts = {value.host for value in batch}
        if not failed:
            self.outbox.taken(batch)
            self._refusing -= hosts
            return
        self.outbox.refused(batch, failed, time.monotonic())
        for host in sorted(hosts):
            self._on_refused(host)
            if host not in self._refusing:
                self._refusing.add(host)
                log.info("Zabbix has no host %s, or not all of its items yet: some %s queued", host, self._what)
