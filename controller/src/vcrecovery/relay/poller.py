"""Reads libvirtGuestTable of agents by SNMPv3, with pysnmp."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
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
from pysnmp.proto.errind import RequestTimedOut
from pysnmp.proto.rfc1905 import EndOfMibView, NoSuchInstance, NoSuchObject

from vcrecovery.errors import ExternalError
from vcrecovery.relay.guests import Table
from vcrecovery.relay.walk import NON_REPEATERS, Variable, Walk
from vcrecovery.snmp.mib import ENTERPRISES, Oid

AUTHENTICATION = {"sha256": USM_AUTH_HMAC192_SHA256, "sha512": USM_AUTH_HMAC384_SHA512}
PRIVACY = {"aes128": USM_PRIV_CFB128_AES}
#: A table of so many pages is no table of a hypervisor.
_PAGES = 200
#: An agent that has answered and then fails so often in a row may have another engine ID.
_RENEW_AFTER = 3

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


class _RejectedError(Exception):
    """The agent answers, but not what it was asked."""


class Poller:
    """Asks all agents at once. Must be made where an event loop runs.

    pysnmp goes on with an agent's engine ID for minutes after the agent has got another one (it drops the agent's
    protest, and the request times out), and has no way to forget it. So an agent that has become silent is asked from
    a newer engine of pysnmp, which does not know it yet.
    """

    def __init__(self, users: Mapping[str, UsmUserData], answered: Answered) -> None:
        self._users = users
        self._answered = answered
        self._security: tuple[bytes, int, int] = (b"", 0, 0)
        self._enterprise: dict[str, Oid] = {}
        self._targets: dict[str, UdpTransportTarget] = {}
        self._newest = self._new_engine()
        self._engines: dict[str, SnmpEngine] = {}
        self._failures: dict[str, int] = {}

    def _new_engine(self) -> SnmpEngine:
        engine = SnmpEngine()
        engine.observer.register_observer(self._saw_parameters, "rfc3414.processIncomingMsg")
        engine.observer.register_observer(self._saw_answer, "rfc3412.receiveMessage:response")
        return engine

    def _failed(self, name: str) -> None:
        """Moves an agent that has answered before to a newer engine; to make one takes a tenth of a second."""
        if name not in self._failures:
            return  # its engine does not know it
        self._failures[name] += 1
        if self._failures[name] < _RENEW_AFTER:
            return
        old = self._engines[name]
        if old is self._newest:
            self._newest = self._new_engine()
        self._engines[name] = self._newest
        del self._failures[name], self._targets[name]
        if old not in self._engines.values():
            old.close_dispatcher()

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

    async def read(self, name: str, address: str, port: int, users: Sequence[str], timeout: float) -> tuple[Table, str]:
        """The agent's table, and the first of `users` whom it takes, within `timeout` seconds.

        Raises ExternalError when the agent does not answer, or not with a table.
        """
        enterprises = (self._enterprise[name],) if name in self._enterprise else ENTERPRISES
        try:
            async with asyncio.timeout(timeout):
                self._engines.setdefault(name, self._newest)
                if name not in self._targets:
                    self._targets[name] = await UdpTransportTarget.create(
                        (address, port), timeout=timeout / 2.5, retries=1
                    )
                for enterprise in enterprises:
                    table, user = await self._walk_as(users, enterprise, name)
                    self._failures[name] = 0
                    if table.rows or table.libvirt is not None:
                        self._enterprise[name] = enterprise
                        return table, user
        except (TimeoutError, OSError) as error:
            self._failed(name)
            raise ExternalError(
                f"the SNMP agent of hypervisor {name} ({address}:{port}) does not answer", "start it there"
            ) from error
        except (_RejectedError, PySnmpError, ValueError) as error:
            self._failed(name)
            raise ExternalError(
                f"the SNMP agent of hypervisor {name} ({address}:{port}) gives no table: {str(error) or 'it refuses'}",
                "compare its user and passphrases with the plan's",
            ) from error
        self._enterprise.pop(name, None)
        return table, user

    async def _walk_as(self, users: Sequence[str], enterprise: Oid, name: str) -> tuple[Table, str]:
        *others, last = users
        for user in others:
            with contextlib.suppress(_RejectedError):
                return await self._walk(Walk(enterprise), name, self._users[user]), user
        return await self._walk(Walk(enterprise), name, self._users[last]), last

    async def _walk(self, walk: Walk, name: str, user: UsmUserData) -> Table:
        engine, target = self._engines[name], self._targets[name]
        for _ in range(_PAGES):
            asked = walk.ask()
            error, status, _, variables = await bulk_cmd(
                engine,
                user,
                target,
                ContextData(),
                NON_REPEATERS,
                walk.rows_at_once,
                *(ObjectType(ObjectIdentity(oid)) for oid in asked),
                lookupMib=False,
            )
            if isinstance(error, RequestTimedOut):
                raise TimeoutError
            if error or status:
                raise _RejectedError(str(error or status.prettyPrint()))
            page: list[Variable] = [(tuple(oid), number_or_bytes(value)) for oid, value in variables]
            if walk.answer(page):
                return walk.table()
        raise ValueError("its table has no end")

    def close(self) -> None:
        for engine in {self._newest, *self._engines.values()}:
            engine.close_dispatcher()
