"""One receiver of notifications, spoken to with pysnmp: SNMPv3 informs, or SNMPv2c traps."""

from __future__ import annotations

import asyncio
import time

from pysnmp.error import PySnmpError
from pysnmp.hlapi.v3arch.asyncio import (
    CommunityData,
    ContextData,
    SnmpEngine,
    UdpTransportTarget,
    UsmUserData,
    send_notification,
    usmAesCfb128Protocol,
    usmHMAC192SHA256AuthProtocol,
    usmHMAC384SHA512AuthProtocol,
)
from pysnmp.hlapi.v3arch.asyncio.ntforg import LCD
from pysnmp.proto.rfc1902 import Integer32, ObjectIdentifier, OctetString, TimeTicks
from pysnmp.smi.rfc1902 import ObjectIdentity, ObjectType

from vcrecovery.plan.monitoring import SnmpUser
from vcrecovery.snmp.credentials import read_passphrase, read_secret
from vcrecovery.snmp.guest_notification import GuestNotification
from vcrecovery.snmp.guest_state import row_status
from vcrecovery.snmp.mib import NOTIFICATION, Column, Extra, Oid, scalar
from vcrecovery.snmp.settings import AgentSettings, Destination

#: Seconds for an answer to an inform.
TIMEOUT = 1.0
#: An engine that was discovered may be another one now: after so many failures everything is asked anew.
FORGET_AFTER = 3

SYS_UP_TIME: Oid = (1, 3, 6, 1, 2, 1, 1, 3, 0)
SNMP_TRAP_OID: Oid = (1, 3, 6, 1, 6, 3, 1, 1, 4, 1, 0)
_AUTH = {"sha256": usmHMAC192SHA256AuthProtocol, "sha512": usmHMAC384SHA512AuthProtocol}


def user_data(name: str, user: SnmpUser) -> UsmUserData:
    """Raises UsageError when a passphrase's file cannot be used."""
    return UsmUserData(
        name,
        authKey=read_passphrase(user.auth_file, f"the authentication passphrase of SNMP user {name}"),
        privKey=read_passphrase(user.privacy_file, f"the privacy passphrase of SNMP user {name}"),
        authProtocol=_AUTH[user.auth],
        privProtocol=usmAesCfb128Protocol,
    )


def variables(
    notification: GuestNotification, host: str, enterprise: Oid, started: float, now: float
) -> list[tuple[Oid, object]]:
    """libvirt-snmp's variables in its order, and then this agent's own. Up time counts from `started`."""
    ticks = int((notification.at - started) * 100) % 2**32
    age = int((now - notification.at) * 100) % 2**32
    return [
        (SYS_UP_TIME, TimeTicks(ticks)),
        (SNMP_TRAP_OID, ObjectIdentifier((*enterprise, *NOTIFICATION))),
        (scalar(Column.NAME, enterprise), OctetString(notification.name.encode("utf-8", "surrogateescape"))),
        (scalar(Column.UUID, enterprise), OctetString(notification.uuid.bytes)),
        (scalar(Column.STATE, enterprise), Integer32(int(notification.state))),
        (scalar(Column.ROW_STATUS, enterprise), Integer32(int(row_status(notification.state)))),
        (scalar(Extra.EVENT, enterprise), OctetString(notification.event.encode())),
        (scalar(Extra.DETAIL, enterprise), OctetString(notification.detail.encode())),
        (scalar(Extra.HOST, enterprise), OctetString(host.encode())),
        (scalar(Extra.AGE, enterprise), TimeTicks(age)),
    ]


class NotificationSink:
    """Where notifications go. One SNMP engine is kept: what it learnt of the receiver saves two round trips."""

    def __init__(self, destination: Destination, settings: AgentSettings, started: float) -> None:
        """Raises UsageError when a secret cannot be used."""
        self.destination = destination
        self._host, self._enterprise, self._started = settings.host, settings.oid, started
        self._auth: UsmUserData | CommunityData
        if destination.user is not None:
            self._auth = user_data(destination.user, settings.users[destination.user])
        elif destination.community_file is not None:
            community = read_secret(destination.community_file, "the SNMP community")
            self._auth = CommunityData(community, mpModel=1)  # noqa: S508  for receivers that know no SNMPv3
        self.confirms = destination.user is not None
        self._kind = "inform" if self.confirms else "trap"
        self._engine: SnmpEngine | None = None
        self._failures = 0

    async def warm_up(self) -> None:
        """Makes the engine and the keys now: the first notification would wait 70 ms for them."""
        engine = self._engine = self._engine or SnmpEngine()
        LCD.configure(engine, self._auth, await self._target(), self._kind, ContextData().contextName)

    async def _target(self) -> UdpTransportTarget:
        address = str(self.destination.address), self.destination.port
        return await UdpTransportTarget.create(address, timeout=TIMEOUT, retries=0)

    async def send(self, notification: GuestNotification) -> str:
        """Empty when the receiver has confirmed it (a trap: when it was sent), else why not."""
        engine = self._engine = self._engine or SnmpEngine()
        named = [
            ObjectType(ObjectIdentity(oid), value)
            for oid, value in variables(notification, self._host, self._enterprise, self._started, time.monotonic())
        ]
        try:
            target = await self._target()
            sending = send_notification(engine, self._auth, target, ContextData(), self._kind, *named, lookupMib=False)
            indication, status, _index, _variables = await asyncio.wait_for(sending, 10 * TIMEOUT)
            reason = str(indication or status or "")
        except (PySnmpError, OSError, TimeoutError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
        self._failures = self._failures + 1 if reason else 0
        if self._failures >= FORGET_AFTER and self._engine is engine:
            self.close()
        return reason

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close_dispatcher()
        self._engine, self._failures = None, 0
