"""The protocol between snmpd and a `pass_persist` program (snmpd.conf(5)).

Lines on standard input and output. snmpd does nothing else while it waits for an answer, so each one comes soon,
whatever libvirt does. SET is always refused: with libvirt-snmp it can destroy VMs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import BinaryIO

from vcrecovery.snmp.mib import Oid
from vcrecovery.snmp.table import Tree

_NONE = b"NONE\n"
_OID = re.compile(rb"\.?[0-9]{1,10}(\.[0-9]{1,10}){0,127}")


def parse_oid(line: bytes) -> Oid | None:
    """`.1.3.6` as numbers; None if it is no OID."""
    text = line.strip()
    return tuple(int(part) for part in text.lstrip(b".").split(b".")) if _OID.fullmatch(text) else None


def serve(requests: BinaryIO, answers: BinaryIO, tree: Callable[[], Tree]) -> None:
    """Answers until snmpd closes its end."""
    while line := requests.readline():
        answers.write(_reply(line.strip().lower(), requests, tree))
        answers.flush()


def _reply(command: bytes, requests: BinaryIO, tree: Callable[[], Tree]) -> bytes:
    if command == b"ping":
        return b"PONG\n"
    if command == b"set":
        requests.readline()  # the OID
        requests.readline()  # type and value
        return b"not-writable\n"
    if command not in (b"get", b"getnext"):
        return _NONE
    oid = parse_oid(requests.readline())
    if oid is None:
        return _NONE
    found = tree().get(oid) if command == b"get" else tree().after(oid)
    if found is None:
        return _NONE
    name, value = found
    return f".{'.'.join(map(str, name))}\n{value.kind}\n{value.text}\n".encode()
