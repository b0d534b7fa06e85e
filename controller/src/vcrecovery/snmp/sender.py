"""Sends notifications to one receiver, again until it confirms them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Protocol

from vcrecovery.snmp.guest_notification import GuestNotification
from vcrecovery.snmp.settings import Destination
from vcrecovery.snmp.unconfirmed import Unconfirmed

log = logging.getLogger("vcrecovery.snmp")

QUEUE = 1000
#: So many VMs' informs are under way at once.
WORKERS = 8
RETRY_DELAY = 1.0
#: Drops are told of at most once in so many.
TELL_EVERY = 100


class Destined(Protocol):
    """What `NotificationSink` does."""

    destination: Destination
    confirms: bool

    async def send(self, notification: GuestNotification) -> str: ...


class Sender:
    """Lives in one event loop. `offer` never waits."""

    def __init__(self, receiver: Destined, limit: int = QUEUE, retry_delay: float = RETRY_DELAY) -> None:
        self._receiver = receiver
        self._outbox = Unconfirmed(limit)
        self._retry_delay = retry_delay
        self._wake = asyncio.Event()
        self._down = ""

    def offer(self, notification: GuestNotification) -> None:
        if self._outbox.put(notification) is not None and self._outbox.dropped % TELL_EVERY == 1:
            log.error(
                "%s: %d notification(s) dropped, the oldest first: its queue is full",
                self._receiver.destination,
                self._outbox.dropped,
            )
        self._wake.set()

    async def run(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._work())

    async def drain(self, seconds: float) -> None:
        """Gives what waits a last chance."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while len(self._outbox):
                    await asyncio.sleep(0.01)

    async def _work(self) -> None:
        while True:
            notification = self._outbox.take()
            if notification is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            while reason := await self._receiver.send(notification):
                self._tell(reason)
                if not self._receiver.confirms:
                    break
                await asyncio.sleep(self._retry_delay)
            else:
                log.info("%s: told of %s", self._receiver.destination, notification)
                self._tell("")
            self._outbox.done(notification)
            self._wake.set()

    def _tell(self, down: str) -> None:
        """Each change once."""
        where = self._receiver.destination
        if down and not self._down:
            log.warning("%s: %s; its notifications are queued", where, down)
        elif self._down and not down:
            log.info("%s: answers again; %d notification(s) queued", where, len(self._outbox) - 1)
        self._down = down
