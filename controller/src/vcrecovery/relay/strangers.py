"""Notifications of guests that nobody knows yet, until a table says whether there are such guests. Pure."""

from __future__ import annotations

from collections.abc import Callable

#: Seconds: longer than two polls of libvirt-snmp, whose copy of the table may be older than the guest.
PATIENCE = 15.0
#: More of them at once are no new guests.
_MOST = 100


class Strangers:
    """Those of one hypervisor. `now` is a monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._waiting: list[tuple[str, float]] = []

    def add(self, uuid: str, now: float) -> bool:
        """False if too many wait already."""
        if len(self._waiting) >= _MOST:
            return False
        self._waiting.append((uuid, now))
        return True

    def settle(self, known: Callable[[str], bool], now: float) -> tuple[int, int]:
        """How many notifications were of guests that are known now, and how many waited in vain."""
        waiting = [(uuid, at) for uuid, at in self._waiting if not known(uuid)]
        come = len(self._waiting) - len(waiting)
        self._waiting = [(uuid, at) for uuid, at in waiting if now - at <= PATIENCE]
        return come, len(waiting) - len(self._waiting)
