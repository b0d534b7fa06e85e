"""Notifications that wait for their receiver. Pure.

Of one VM only one is in flight at a time, so that they arrive in order. When the box is full the oldest goes: the
newest says what is.
"""

from __future__ import annotations

from collections import deque
from uuid import UUID

from vcrecovery.snmp.guest_notification import GuestNotification


class Unconfirmed:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: deque[GuestNotification] = deque()
        self._under_way: set[UUID] = set()
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._under_way)

    def put(self, notification: GuestNotification) -> GuestNotification | None:
        """Returns what had to go for it."""
        self._waiting.append(notification)
        if len(self._waiting) <= self._limit:
            return None
        self.dropped += 1
        return self._waiting.popleft()

    def take(self) -> GuestNotification | None:
        """The oldest whose VM has none under way. Every one that is taken is given to `done` in the end."""
        for place, notification in enumerate(self._waiting):
            if notification.uuid not in self._under_way:
                del self._waiting[place]
                self._under_way.add(notification.uuid)
                return notification
        return None

    def done(self, notification: GuestNotification) -> None:
        self._under_way.discard(notification.uuid)
