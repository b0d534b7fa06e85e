"""Where notifications arrive: a UDP socket, the guard, and pysnmp behind it, which deciphers and answers informs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Mapping
from typing import Any

from pysnmp.carrier.asyncio.dgram.udp import DOMAIN_NAME, UdpAsyncioTransport
from pysnmp.entity import config
from pysnmp.entity.engine import SnmpEngine
from pysnmp.entity.rfc3413.ntfrcv import NotificationReceiver
from pysnmp.proto.rfc1902 import OctetString

from vcrecovery.errors import OutsideError
from vcrecovery.relay.counts import Counts, Reason
from vcrecovery.relay.guard import Guard, Pass
from vcrecovery.relay.notification import Notification, read_notification
from vcrecovery.relay.own_engine import OwnEngine
from vcrecovery.relay.poller import number_or_bytes

log = logging.getLogger("vcrecovery.relay")

#: A datagram is judged in some 30 microseconds; a pause for the rest of the loop comes after so many.
_AT_ONCE = 100
_LONGEST = 65535
_BUFFER = 4 * 2**20

#: Told of a genuine notification and its sender's address.
OnNotification = Callable[[Notification, str], None]


def listen(address: str, port: int) -> socket.socket:
    """Raises OutsideError."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        sock.bind((address, port))
    except OSError as error:
        sock.close()
        raise OutsideError(
            f"cannot listen on {address}:{port} (UDP): {error.strerror}",
            "correct snmp.traps; ports below 1024 need CAP_NET_BIND_SERVICE",
        ) from error
    return sock


class _Transport(UdpAsyncioTransport):  # type: ignore[misc]  # pysnmp has no types
    """A transport whose datagrams we read ourselves."""

    def __init__(self, sock: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self.answered = False
        self._sock = sock

    def deliver(self, data: bytes, sender: tuple[str, int]) -> None:
        self._callback_function(self, self.ADDRESS_TYPE(sender), data)

    def send_message(self, outgoingMessage: Any, transportAddress: Any) -> None:  # noqa: N803  pysnmp's names
        self.answered = True
        with contextlib.suppress(OSError):  # the sender asks again
            self._sock.sendto(bytes(outgoingMessage), tuple(transportAddress)[:2])


class Receiver:
    """Must be made where an event loop runs."""

    def __init__(
        self, sock: socket.socket, guard: Guard, counts: Counts, own: OwnEngine, on_notification: OnNotification
    ) -> None:
        self._sock, self._guard, self._counts, self._on_notification = sock, guard, counts, on_notification
        self._loop = asyncio.get_running_loop()
        self._engine = SnmpEngine()
        builder = self._engine.get_mib_builder()
        (engine_id,) = builder.import_symbols("__SNMP-FRAMEWORK-MIB", "snmpEngineID")
        (boots,) = builder.import_symbols("__SNMP-FRAMEWORK-MIB", "snmpEngineBoots")
        engine_id.syntax = engine_id.syntax.clone(own.engine_id)
        boots.syntax = boots.syntax.clone(own.boots)
        self._engine.snmpEngineID = engine_id.syntax
        self._transport = _Transport(sock, self._loop)
        config.add_transport(self._engine, DOMAIN_NAME, self._transport)
        NotificationReceiver(self._engine, self._received)
        self._heard: list[Any] | None = None
        self._loop.add_reader(sock, self._readable)

    def add_user(self, user: str, keys: Mapping[str, Any], engine_id: bytes | None = None) -> None:
        """`engine_id` is that of an agent whose traps may come; None: this relay's own, for informs."""
        other = None if engine_id is None else OctetString(engine_id)
        config.add_v3_user(self._engine, user, securityEngineId=other, **keys)

    def add_community(self, community: bytes) -> None:
        config.add_v1_system(self._engine, "relay", OctetString(community))

    def close(self) -> None:
        self._loop.remove_reader(self._sock)
        self._engine.close_dispatcher()
        self._sock.close()

    def _readable(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                data, sender = self._sock.recvfrom(_LONGEST)
            except OSError:
                return
            verdict = self._guard.judge(data, sender[0], self._loop.time())
            if isinstance(verdict, Reason):
                self._counts.reject(verdict, sender[0])
                continue
            self._take(data, sender, verdict)
            return  # that took milliseconds: others have a turn

    def _take(self, data: bytes, sender: tuple[str, int], verdict: Pass) -> None:
        self._heard, self._transport.answered = None, False
        try:
            self._transport.deliver(data, sender)
        except Exception as error:  # noqa: BLE001  pysnmp raises anything on bytes that it does not understand
            log.debug("%s: %s: %s", sender[0], type(error).__name__, error)
        if verdict is not Pass.NOTIFICATION:
            return
        if self._heard is None:
            if not self._transport.answered:  # an answer without a notification sets the sender's clock
                self._counts.reject(Reason.ENCODING, sender[0])
            return
        notification = read_notification(self._heard)
        if notification is None:
            self._counts.reject(Reason.MIB, sender[0])
        else:
            self._on_notification(notification, sender[0])

    def _received(self, _engine: Any, _state: Any, _id: Any, _name: Any, variables: Any, _context: Any) -> None:
        self._heard = [(tuple(oid), number_or_bytes(value)) for oid, value in variables]
