"""Lifecycle events of one host's VMs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import libvirt

from vcrecovery.core.domain import DomainEvent
from vcrecovery.drivers.libvirt.connection import Call, Connection, close
from vcrecovery.drivers.libvirt.readings import STOPPED, words_of

#: Seconds for the end of a subscription.
END_WITHIN = 2.0


class Events(Connection):
    """What one host reports by itself."""

    _subscribed: Any = None

    def subscribe(
        self,
        on_event: Callable[[DomainEvent], None],
        on_close: Callable[[], None],
        on_begin: Callable[[str], None] = lambda _uuid: None,
    ) -> Callable[[], None]:
        """Reports lifecycle events from libvirt's thread, and the loss of the connection. Returns the way to end it.

        `on_begin` gets the UUID of a VM that is started, or whose guest reboots.

        Raises ExternalError when the host does not answer.
        """

        over = threading.Event()

        def lifecycle(_connection: Any, domain: Any, event: int, detail: int, _opaque: object) -> None:
            stopped = event in (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_CRASHED)
            reason = STOPPED.get(detail, "") if event == libvirt.VIR_DOMAIN_EVENT_STOPPED else "crashed"
            if over.is_set():
                return
            if event == libvirt.VIR_DOMAIN_EVENT_STARTED:
                on_begin(domain.UUIDString())
            words = words_of(event, detail)
            on_event(DomainEvent(domain.UUIDString(), stopped, reason if stopped else "", domain.name(), *words))

        def rebooted(_connection: Any, domain: Any, _opaque: object) -> None:
            if not over.is_set():
                on_begin(domain.UUIDString())

        def closed(_connection: Any, _reason: int, _opaque: object) -> None:
            if not over.is_set():
                on_close()

        def register(call: Call[list[Any]]) -> list[Any]:
            call.connection.registerCloseCallback(closed, None)
            wanted = (
                (libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, lifecycle),
                (libvirt.VIR_DOMAIN_EVENT_ID_REBOOT, rebooted),
            )
            try:
                for kind, report in wanted:
                    call.connection.domainEventRegisterAny(None, kind, report, None)
            except libvirt.libvirtError:
                _deregister(call.connection)
                raise
            return [call.connection]

        def deregister(subscribed: list[Any]) -> None:
            over.set()
            _deregister(subscribed[0])
            close(subscribed)

        try:
            subscribed = self._call(register, keep=True, undo=deregister)
        except libvirt.libvirtError as error:
            raise self._unreachable(error) from error
        self._subscribed = subscribed[0]

        def end() -> None:
            # This is a call into the daemon, too: one that hangs must not keep its caller from the next connection.
            over.set()
            self._subscribed = None
            thread = threading.Thread(
                target=deregister, args=(subscribed,), name=f"libvirt-end-{self.name}", daemon=True
            )
            thread.start()
            thread.join(END_WITHIN)

        return end

    def alive(self) -> bool:
        """Whether the connection of the subscription still answers its keep-alives."""
        connection = self._subscribed
        return connection is not None and bool(connection.isAlive())


def _deregister(connection: Any) -> None:
    """Ends all that it reports, also when it is closed. May hang."""
    for number in list(getattr(connection, "domainEventCallbackID", ())):
        with contextlib.suppress(libvirt.libvirtError):
            connection.domainEventDeregisterAny(number)
    with contextlib.suppress(libvirt.libvirtError):
        connection.unregisterCloseCallback()
