"""Where notifications arrive: a UDP socket, the guard, and pysnmp behind it, which deciphers and answers informs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any

from pysnmp.carrier.asyncio.dgram.udp import DOMAIN_NAME, UdpAsyncioTransport
from pysnmp.entity import config
from pysnmp.entity.engine import SnmpEngine
from pysnmp.entity.rfc3413.ntfrcv import NotificationReceiver
from pysnmp.proto.rfc1902 import Integer32, OctetString

from vcrecovery.errors import ExternalError
from vcrecovery.relay.counts import Counts, Reason
from vcrecovery.relay.guard import Guard, Pass
from vcrecovery.relay.notification import Notification, of_snmpd, read_notification
from vcrecovery.relay.own_engine import OwnEngine
from vcrecovery.relay.poller import number_or_bytes

log = logging.getLogger("vcrecovery.relay")

#: A datagram is judged in some 30 microseconds; a pause for the rest of the loop comes after so many.
_AT_ONCE = 100
_LONGEST = 65535
_BUFFER = 4 * 2**20
#: So many answers to informs are remembered, for those whose answer got lost.
_ANSWERS = 256
#: <linux/sock_diag.h>: what SO_MEMINFO gives, and the place of the datagrams that found no room.
_SO_MEMINFO, _MEMINFO, _DROPS = 55, struct.Struct("=9I"), 8

#: Told of a genuine notification and its sender's address.
OnNotification = Callable[[Notification, str], None]


def listen(address: str, port: int) -> socket.socket:
    """Raises ExternalError."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        sock.bind((address, port))
    except OSError as error:
        sock.close()
        raise ExternalError(
            f"cannot listen on {address}:{port} (UDP): {error.strerror}",
            "correct snmp.traps; ports below 1024 need CAP_NET_BIND_SERVICE",
        ) from error
    return sock


def dropped(sock: socket.socket) -> int:
    """How many datagrams the kernel has thrown away, since they came faster than they were read."""
    try:
        return int(_MEMINFO.unpack(sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size))[_DROPS])
    except (OSError, struct.error):
        return 0


class _Transport(UdpAsyncioTransport):  # type: ignore[misc]  # pysnmp has no types
    """A transport whose datagrams we read ourselves."""

    def __init__(self, sock: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self.answer: bytes | None = None
        self._sock = sock

    def deliver(self, data: bytes, sender: tuple[str, int]) -> None:
        self._callback_function(self, self.ADDRESS_TYPE(sender), data)

    def send_message(self, outgoingMessage: Any, transportAddress: Any) -> None:  # noqa: N803  pysnmp's names
        self.answer = bytes(outgoingMessage)
        self.send(self.answer, tuple(transportAddress)[:2])

    def send(self, answer: bytes, address: Any) -> None:
        with contextlib.suppress(OSError):  # the sender asks again
            self._sock.sendto(answer, address)


class _EngineTime(Integer32):  # type: ignore[misc]
    """The guard's clock in the place of pysnmp's, which is the machine's and can be set."""

    def __init__(self, seconds: Callable[[], int]) -> None:
        super().__init__(0)
        self._seconds = seconds

    def clone(self, *_: Any, **__: Any) -> Integer32:
        return Integer32(self._seconds())


class NotificationListener:
    """Must be made where an event loop runs."""

    def __init__(
        self, sock: socket.socket, guard: Guard, counts: Counts, own: OwnEngine, on_notification: OnNotification
    ) -> None:
        self._sock, self._guard, self._counts, self._on_notification = sock, guard, counts, on_notification
        self._loop = asyncio.get_running_loop()
        self._engine = SnmpEngine()
        builder = self._engine.get_mib_builder()
        names = ("snmpEngineID", "snmpEngineBoots", "snmpEngineTime")
        engine_id, boots, uptime = builder.import_symbols("__SNMP-FRAMEWORK-MIB", *names)
        engine_id.syntax = engine_id.syntax.clone(own.engine_id)
        boots.syntax = boots.syntax.clone(own.boots)
        uptime.syntax = _EngineTime(lambda: guard.engine_time(self._loop.time()))
        self._engine.snmpEngineID = engine_id.syntax
        self._transport = _Transport(sock, self._loop)
        config.add_transport(self._engine, DOMAIN_NAME, self._transport)
        NotificationReceiver(self._engine, self._received)
        self._heard: list[Any] | None = None
        #: By the inform.
        self._answers: dict[bytes, bytes] = {}
        self._dropped = 0
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
            elif verdict is Pass.REPEATED:
                self._counts.reject(Reason.REPEATED, sender[0])
                if data in self._answers:
                    self._transport.send(self._answers[data], sender)
            else:
                self._take(data, sender, verdict)
                return  # that took milliseconds: others have a turn

    def _take(self, data: bytes, sender: tuple[str, int], verdict: Pass) -> None:
        self._heard, self._transport.answer = None, None
        try:
            self._transport.deliver(data, sender)
        except Exception as error:  # noqa: BLE001  pysnmp raises anything on bytes that it does not understand
            log.debug("%s: %s: %s", sender[0], type(error).__name__, error)
        if verdict is Pass.DISCOVERY:
            self._counts.questions += 1
        elif verdict is Pass.LATE:
            self._counts.reject(Reason.LATE, sender[0])
        elif self._heard is None:
            self._counts.reject(Reason.ENCODING, sender[0])
        else:
            if self._transport.answer is not None:
                self._remember(data, self._transport.answer)
            self._deliver(self._heard, sender[0])

    def _remember(self, data: bytes, answer: bytes) -> None:
        self._answers[data] = answer
        if len(self._answers) > _ANSWERS:
            del self._answers[next(iter(self._answers))]

    def _deliver(self, variables: list[Any], address: str) -> None:
        notification = read_notification(variables)
        if notification is not None:
            self._on_notification(notification, address)
        elif of_snmpd(variables):
            self._counts.of_snmpd += 1
        else:
            self._counts.reject(Reason.MIB, address)

    def count_dropped(self) -> None:
        before, self._dropped = self._dropped, dropped(self._sock)
        if self._dropped > before:
            self._counts.reject(Reason.OVERFLOW, "anybody", self._dropped - before)

    def _received(self, _engine: Any, _state: Any, _id: Any, _name: Any, variables: Any, _context: Any) -> None:
        self._heard = [(tuple(oid), number_or_bytes(value)) for oid, value in variables]
