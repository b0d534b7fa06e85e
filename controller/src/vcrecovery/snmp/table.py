"""libvirtGuestTable as a sorted tree of values. Pure.

What a poller sees: sysUpTime answers while snmpd lives. `LIBVIRT` (mib.Extra) says `answers` together with the rows of
every VM, also those that are off; or it says `silent`, and there are no rows. So a table without rows means that all
VMs are gone only where `LIBVIRT` says `answers` in the same reading. libvirt-snmp has no such object: there a poller
must take a table that has become empty at once as silence.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from vcrecovery.snmp.guest_state import guest_state
from vcrecovery.snmp.mib import Column, Extra, LibvirtAnswer, Oid, RowStatus, column, scalar

GAUGE_MAX = 2**32 - 1
COUNTER_MODULUS = 2**64
#: snmpd reads a value as one line of 4096 bytes, three for each byte of a name.
NAME_MAX = 1024


@dataclass(frozen=True)
class Row:
    """A VM. `state` is libvirt's number, memory is in KiB, CPU time in ns."""

    uuid: UUID
    name: str
    state: int
    vcpus: int
    memory: int
    memory_limit: int
    cpu_time: int


@dataclass(frozen=True)
class Value:
    """A value as snmpd's pass_persist takes it: its type's name there, and its text."""

    kind: str
    text: str


def octets(text: str) -> Value:
    """Every byte in hexadecimal, so that no name can be anything else to snmpd than a name."""
    return Value("octet", text.encode("utf-8", "surrogateescape")[:NAME_MAX].hex(" "))


def gauge(number: int) -> Value:
    """It stays at its ends, as RFC 2578 wants it."""
    return Value("gauge", str(min(max(number, 0), GAUGE_MAX)))


class Tree:
    """Values by OID: what GET and GETNEXT ask for."""

    def __init__(self, values: Iterable[tuple[Oid, Value]] = ()) -> None:
        self._values = dict(values)
        self._sorted = sorted(self._values)

    def get(self, oid: Oid) -> tuple[Oid, Value] | None:
        value = self._values.get(oid)
        return None if value is None else (oid, value)

    def after(self, oid: Oid) -> tuple[Oid, Value] | None:
        """The first value behind `oid`, which need not exist."""
        place = bisect_right(self._sorted, oid)
        return self.get(self._sorted[place]) if place < len(self._sorted) else None


def tree_of(rows: Iterable[Row] | None, host: str, enterprise: Oid) -> Tree:
    """The table and what stands beside it. `rows` is None while libvirt does not answer."""
    answer = LibvirtAnswer.SILENT if rows is None else LibvirtAnswer.ANSWERS
    values = [
        (scalar(Extra.HOST, enterprise), octets(host)),
        (scalar(Extra.LIBVIRT, enterprise), Value("integer", str(int(answer)))),
    ]
    for row in rows or ():
        cells = {
            Column.NAME: octets(row.name),
            Column.STATE: Value("integer", str(int(guest_state(row.state)))),
            Column.CPU_COUNT: gauge(row.vcpus),
            Column.MEMORY_CURRENT: gauge(row.memory // 1024),
            Column.MEMORY_LIMIT: gauge(row.memory_limit // 1024),
            Column.CPU_TIME: Value("counter64", str(max(row.cpu_time, 0) % COUNTER_MODULUS)),
            Column.ROW_STATUS: Value("integer", str(int(RowStatus.ACTIVE))),
        }
        values += [(column(which, row.uuid, enterprise), value) for which, value in cells.items()]
    return Tree(values)
