"""Reads libvirtGuestTable of agents by SNMPv3, with pysnmp."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from pysnmp.error import PySnmpError
from pysnmp.hlapi.v3arch.asyncio import (
    USM_AUTH_HMAC192_SHA256,
    USM_AUTH_HMAC384_SHA512,
    USM_PRIV_CFB128_AES,
    ContextData,
    ObjectIdentity,
    ObjectType,
    SnmpEngine,
    UdpTransportTarget,
    UsmUserData,
    bulk_cmd,
)
from pysnmp.proto.rfc1905 import EndOfMibView, NoSuchInstance, NoSuchObject

from vcrecovery.errors import OutsideError
from vcrecovery.relay.guests import Table
from vcrecovery.relay.walk import NON_REPEATERS, Variable, Walk
from vcrecovery.snmp.mib import ENTERPRISES, Oid

AUTHENTICATION = {"sha256": USM_AUTH_HMAC192_SHA256, "sha512": USM_AUTH_HMAC384_SHA512}
PRIVACY = {"aes128": USM_PRIV_CFB128_AES}
#: 4 columns of so many rows are as many variables as snmpd gives in one answer (maxGetbulkResponses 100).
_ROWS_AT_ONCE = 24
#: A table of so many pages is no table of a hypervisor.
_PAGES = 200

#: Told of an agent's authenticated answer: its address, engine ID, boots and time.
Answered = Callable[[str, bytes, int, int], None]


def number_or_bytes(value: Any) -> Any:
    """A value of pysnmp as Python's own; None for one that is not there."""
    if isinstance(value, EndOfMibView | NoSuchObject | NoSuchInstance):
        return None
    if hasattr(value, "asOctets"):
        return bytes(value.asOctets())
    if hasattr(value, "asTuple"):
        return tuple(value.asTuple())
    return int(value) if hasattr(value, "__int__") else None


class Poller:
    """Asks all agents from one socket. Must be made where an event loop runs."""

    def __init__(self, users: Mapping[str, UsmUserData], answered: Answered) -> None:
        self._engine = SnmpEngine()
        self._users = users
        self._answered = answered
        self._security: tuple[bytes, int, int] = (b"", 0, 0)
        self._enterprise: dict[str, Oid] = {}
        self._targets: dict[tuple[str, int, float], UdpTransportTarget] = {}
        observer = self._engine.observer
        observer.register_observer(self._saw_parameters, "rfc3414.processIncomingMsg")
        observer.register_observer(self._saw_answer, "rfc3412.receiveMessage:response")

    # pysnmp calls both in one go, the second only when the answer was authentic.

    def _saw_parameters(self, _engine: Any, _point: str, found: Any, _context: Any) -> None:
        self._security = (
            bytes(found["securityEngineId"]),
            int(found["snmpEngineBoots"]),
            int(found["snmpEngineTime"]),
        )

    def _saw_answer(self, _engine: Any, _point: str, found: Any, _context: Any) -> None:
        if int(found["securityLevel"]) == 3:
            self._answered(str(found["transportAddress"][0]), *self._security)

    async def _target(self, address: str, port: int, timeout: float) -> UdpTransportTarget:
        key = (address, port, timeout)
        if key not in self._targets:
            self._targets[key] = await UdpTransportTarget.create((address, port), timeout=timeout, retries=1)
        return self._targets[key]

    async def read(self, name: str, address: str, port: int, user: str, timeout: float) -> Table:
        """The agent's table, within `timeout` seconds.

        Raises OutsideError when the agent does not answer, or not with a table.
        """
        enterprises = (self._enterprise[name],) if name in self._enterprise else ENTERPRISES
        try:
            async with asyncio.timeout(timeout):
                target = await self._target(address, port, timeout / 2.5)
                for enterprise in enterprises:
                    table = await self._walk(Walk(enterprise), self._users[user], target)
                    if table.rows or table.libvirt is not None:
                        self._enterprise[name] = enterprise
                        return table
        except (TimeoutError, PySnmpError, OSError, ValueError) as error:
            raise OutsideError(
                f"the SNMP agent of hypervisor {name} ({address}:{port}) does not answer: {error or 'time is over'}",
                "start it there, and compare its user with the plan's",
            ) from error
        self._enterprise.pop(name, None)
        return table

    async def _walk(self, walk: Walk, user: UsmUserData, target: UdpTransportTarget) -> Table:
        for _ in range(_PAGES):
            asked = walk.ask()
            error, status, _, variables = await bulk_cmd(
                self._engine,
                user,
                target,
                ContextData(),
                NON_REPEATERS,
                _ROWS_AT_ONCE,
                *(ObjectType(ObjectIdentity(oid)) for oid in asked),
                lookupMib=False,
            )
            if error or status:
                raise ValueError(str(error or status.prettyPrint()))
            page: list[Variable] = [(tuple(oid), number_or_bytes(value)) for oid, value in variables]
            if walk.answer(page):
                return walk.table()
        raise ValueError("its table has no end")

    def close(self) -> None:
        self._engine.close_dispatcher()
