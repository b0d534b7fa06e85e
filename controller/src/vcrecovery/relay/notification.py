"""What a notification says, from its variables. Pure.

Taken are libvirt-snmp's own (below either enterprise, whose instances end in `.0` or in the UUID) and those of this
project's agent, which say more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from vcrecovery.snmp.guest_state import known_state
from vcrecovery.snmp.mib import ENTERPRISES, EXTRA, NOTIFICATION, TABLE_ENTRY, Column, Extra, GuestState, Oid

Variable = tuple[Oid, bytes | int | Oid | None]

_UPTIME: Oid = (1, 3, 6, 1, 2, 1, 1, 3, 0)
_TRAP_OID: Oid = (1, 3, 6, 1, 6, 3, 1, 1, 4, 1, 0)
#: Every agent's (coldStart and the like), and net-snmp's (that it ends, or was restarted).
_OF_SNMPD: tuple[Oid, ...] = ((1, 3, 6, 1, 6, 3, 1, 1, 5), (1, 3, 6, 1, 4, 1, 8072, 4, 0))
_WORD = re.compile(r"[A-Za-z/ -]{1,40}")
_UUID_LENGTH = 16


@dataclass(frozen=True)
class Notification:
    """A guest's new state. `event` and `detail` are libvirt's words; empty where the agent gives none.

    `uptime` is when it happened, on the clock of who tells it, in hundredths of a second; `age` how long ago that was
    when it was sent, in seconds, where that is told.
    """

    uuid: str
    state: GuestState
    name: str = ""
    event: str = ""
    detail: str = ""
    uptime: int | None = None
    age: float = 0.0

    def __str__(self) -> str:
        cause = f" ({self.detail})" if self.detail else ""
        return f"{self.name} {self.uuid}: {self.event or self.state.name.lower()}{cause}"


def text_of(value: object) -> str:
    """A name as an agent sends it. Zabbix takes 255 characters, and no control characters."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else ""
    return "".join(letter for letter in text if letter.isprintable())[:255]


def _word(value: object) -> str:
    text = text_of(value)
    return text if _WORD.fullmatch(text) else ""


def _uuid(value: object, instance: Oid) -> str:
    """From the 16 bytes, from text in any case, or from the instance; empty if none of them is a UUID."""
    if isinstance(value, bytes) and len(value) != _UUID_LENGTH:
        try:
            return str(UUID(value.decode("ascii")))
        except ValueError:
            value = None
    if isinstance(value, bytes):
        return str(UUID(bytes=value))
    if len(instance) == _UUID_LENGTH and max(instance) <= 0xFF:
        return str(UUID(bytes=bytes(instance)))
    return ""


def of_snmpd(variables: Iterable[Variable]) -> bool:
    """Whether it is what snmpd tells of itself, and so no news of any guest."""
    what = dict(variables).get(_TRAP_OID)
    return isinstance(what, tuple) and any(what[: len(prefix)] == prefix for prefix in _OF_SNMPD)


def read_notification(variables: Iterable[Variable]) -> Notification | None:
    """None if it is none of LIBVIRT-MIB, or does not say which guest is in which state."""
    found = dict(variables)
    enterprise = next((e for e in ENTERPRISES if found.get(_TRAP_OID) == (*e, *NOTIFICATION)), None)
    if enterprise is None:
        return None
    cells: dict[Oid, object] = {}
    instance: Oid = ()
    for oid, value in found.items():
        for place in (TABLE_ENTRY, EXTRA):
            prefix = (*enterprise, *place)
            if oid[: len(prefix)] == prefix and len(oid) > len(prefix) + 1:
                cells[oid[len(enterprise) : len(prefix) + 1]] = value
                if place is TABLE_ENTRY:
                    instance = oid[len(prefix) + 1 :]

    def cell(place: Oid, which: Column | Extra) -> object:
        return cells.get((*place, int(which)))

    uuid = _uuid(cell(TABLE_ENTRY, Column.UUID), instance)
    state = cell(TABLE_ENTRY, Column.STATE)
    known = known_state(state) if isinstance(state, int) else None
    if not uuid or known is None:
        return None
    return Notification(
        uuid,
        known,
        text_of(cell(TABLE_ENTRY, Column.NAME)),
        _word(cell(EXTRA, Extra.EVENT)),
        _word(cell(EXTRA, Extra.DETAIL)),
        uptime if isinstance(uptime := found.get(_UPTIME), int) else None,
        age / 100 if isinstance(age := cell(EXTRA, Extra.AGE), int) and age > 0 else 0.0,
    )
