"""The daemon that tells of every change of a VM's state: libvirt's events in, libvirtGuestNotif out."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import time
from collections.abc import Callable, Sequence
from uuid import UUID

from vcrecovery.core.domain import DomainEvent
from vcrecovery.drivers.libvirt import Guest, LibvirtHost
from vcrecovery.errors import ExternalError
from vcrecovery.snmp.guest_notification import Changes, GuestNotification, Listed
from vcrecovery.snmp.sender import Sender
from vcrecovery.snmp.settings import AgentSettings
from vcrecovery.snmp.sink import NotificationSink

log = logging.getLogger("vcrecovery.snmp")

RECONNECT_DELAY = 1.0
TICK = 1.0
LAST_CHANCE = 2.0


class Notifier:
    """Follows libvirt in a thread, and hands what it says to the senders' event loop."""

    def __init__(self, host: LibvirtHost, senders: Sequence[Sender], loop: asyncio.AbstractEventLoop) -> None:
        self._host = host
        self._senders = senders
        self._loop = loop
        self._changes = Changes()
        self._stop = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._follow, name="follow-libvirt", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def _follow(self) -> None:
        """Subscribes to libvirt's events, again after each loss, and then looks for what was missed."""
        lost = threading.Event()
        said = ""
        while not self._stop.is_set():
            lost.clear()
            begun = time.monotonic()
            try:
                end, guests = self._subscribe(lost)
            except ExternalError as error:
                if error.message != said:
                    said = error.message
                    log.warning("%s", error)
                self._stop.wait(RECONNECT_DELAY)
                continue
            said = ""
            log.info("following libvirt's events; it has %d VM(s)", len(guests))
            self._loop.call_soon_threadsafe(self._look, guests, begun)
            while not self._stop.is_set() and not lost.wait(TICK) and self._host.alive():
                pass
            end()
            if not self._stop.is_set():
                log.warning("connection to libvirt lost")

    def _subscribe(self, lost: threading.Event) -> tuple[Callable[[], None], list[Guest]]:
        """The way to end it, and the VMs at its begin. Raises ExternalError, and then follows nothing."""
        end = self._host.subscribe(self._hear, lost.set)
        try:
            return end, self._host.guests()
        except ExternalError:
            # Else each event would be heard once more for every try.
            end()
            raise

    def _hear(self, event: DomainEvent) -> None:
        """In libvirt's thread, which must not wait."""
        self._loop.call_soon_threadsafe(self._take, event, time.monotonic())

    def _take(self, event: DomainEvent, at: float) -> None:
        notification = self._changes.event(UUID(event.uuid), event.name, event.event, event.detail, at)
        if notification is not None:
            self._offer(notification)

    def _look(self, guests: Sequence[Guest], begun: float) -> None:
        listed = [Listed(UUID(guest.uuid), guest.name, guest.state, guest.reason) for guest in guests]
        for notification in self._changes.look(listed, begun, time.monotonic()):
            self._offer(notification)

    def _offer(self, notification: GuestNotification) -> None:
        for sender in self._senders:
            sender.offer(notification)


def receivers_of(settings: AgentSettings) -> list[NotificationSink]:
    """Raises UsageError when a secret cannot be used."""
    started = time.monotonic()
    return [NotificationSink(destination, settings, started) for destination in settings.destinations]


async def notify(settings: AgentSettings, receivers: Sequence[NotificationSink]) -> None:
    """Until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    senders = [Sender(receiver) for receiver in receivers]
    notifier = Notifier(LibvirtHost(settings.host, settings.uri, read_only=True), senders, loop)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    for receiver in receivers:
        await receiver.warm_up()
    running = [asyncio.create_task(sender.run()) for sender in senders]
    notifier.start()
    await stop.wait()
    notifier.stop()
    await asyncio.gather(*(sender.drain(LAST_CHANCE) for sender in senders))
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    for receiver in receivers:
        receiver.close()
