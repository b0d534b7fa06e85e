"""LIBVIRT-MIB as libvirt-snmp 0.0.4 serves it: the OIDs, and how a VM's UUID is an index.

Source: libvirt-snmp's LIBVIRT-MIB.txt and libvirtGuestTable_interface.c. The UUID is an IMPLIED octet string: 16
sub-identifiers without a length. Notifications of libvirt-snmp end their variables in `.0` instead of the index.
"""

from __future__ import annotations

from enum import IntEnum
from uuid import UUID

Oid = tuple[int, ...]

#: Red Hat's number for libvirt, since 0.0.4.
ENTERPRISE: Oid = (1, 3, 6, 1, 4, 1, 36957)
#: The placeholder of older releases.
OLD_ENTERPRISE: Oid = (1, 3, 6, 1, 4, 1, 12345)
ENTERPRISES = (ENTERPRISE, OLD_ENTERPRISE)

#: Below the enterprise.
NOTIFICATION: Oid = (0, 1)
TABLE_ENTRY: Oid = (1, 1, 1)
#: What this agent adds: no columns of the table, which stays as libvirt-snmp has it.
EXTRA: Oid = (1, 2)


class Column(IntEnum):
    """The columns of libvirtGuestTable."""

    UUID = 1  # not accessible but in notifications
    NAME = 2  # OCTET STRING
    STATE = 3  # INTEGER
    CPU_COUNT = 4  # Unsigned32
    MEMORY_CURRENT = 5  # Gauge32, MiB
    MEMORY_LIMIT = 6  # Gauge32, MiB
    CPU_TIME = 7  # Counter64, ns
    ROW_STATUS = 9  # INTEGER


class Extra(IntEnum):
    """The scalars of this agent beside libvirt-snmp's objects. All but 4 come in notifications, 3 and 4 can be read."""

    EVENT = 1  # OCTET STRING, libvirt's word for the event: stopped, started, ...
    DETAIL = 2  # OCTET STRING, libvirt's word for its cause: crashed, destroyed, shutdown, ...
    HOST = 3  # OCTET STRING, the hypervisor's name in the plan
    LIBVIRT = 4  # INTEGER, a LibvirtAnswer: whether the table below is all there is, or libvirt could not be asked
    AGE = 5  # TimeTicks, how long before it was sent the event was seen


class LibvirtAnswer(IntEnum):
    """Whether libvirt answers the agent. While it does not, the table has no rows."""

    ANSWERS = 1
    SILENT = 2


class GuestState(IntEnum):
    """LibvirtGuestState."""

    RUNNING = 1
    BLOCKED = 2
    PAUSED = 3
    SHUTDOWN = 4
    SHUTOFF = 5
    CRASHED = 6


class RowStatus(IntEnum):
    """RFC 2579, as far as it is used."""

    ACTIVE = 1
    NOT_IN_SERVICE = 2


def column(which: Column, uuid: UUID, enterprise: Oid = ENTERPRISE) -> Oid:
    """The OID of a cell of the table."""
    return (*enterprise, *TABLE_ENTRY, int(which), *uuid.bytes)


def scalar(which: Column | Extra, enterprise: Oid = ENTERPRISE) -> Oid:
    """The `.0` instance of what a notification carries, and of this agent's own objects."""
    place = TABLE_ENTRY if isinstance(which, Column) else EXTRA
    return (*enterprise, *place, int(which), 0)
