"""What waits for Zabbix: a bounded queue, and the values whose items Zabbix does not know yet. Pure.

Zabbix says how many values of a batch it refused, not which. So values of items that it has taken before travel
together; those of others travel apart, one hypervisor's at a time, and one by one when only some were refused. A value
may so be sent twice, with the same time stamp: Zabbix keeps one.

A queue that is full drops its oldest values, but never an item's newest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

#: The most values of one request.
BATCH = 250
#: Zabbix makes the items of a new guest within seconds, and knows them within its next minute.
RETRY_FIRST, RETRY_LAST = 2.0, 30.0

Item = tuple[str, str]


@dataclass(frozen=True)
class Value:
    """A value of an item. `at` is its time in seconds since the epoch (of Unix)."""

    host: str
    key: str
    text: str
    at: float

    @property
    def item(self) -> Item:
        return self.host, self.key


@dataclass
class _Unknown:
    """A host's values that Zabbix may refuse, the newest of each item, and when they are tried."""

    values: dict[Item, Value]
    due: float = 0.0
    delay: float = RETRY_FIRST


class Outbox:
    """Values in the order of their coming. `now` is a monotonic clock, in seconds."""

    def __init__(self, capacity: int) -> None:
        self.dropped = 0
        self._capacity = capacity
        self._queue: deque[Value] = deque()
        self._newest: dict[Item, Value] = {}
        #: An item's newest value that was among the oldest of a full queue.
        self._kept: dict[Item, Value] = {}
        self._known: set[Item] = set()
        self._unknown: dict[str, _Unknown] = {}
        self._singles: deque[Value] = deque()

    def __len__(self) -> int:
        return len(self._queue) + len(self._kept) + sum(len(u.values) for u in self._unknown.values())

    def put(self, value: Value) -> None:
        if value.item not in self._known:
            unknown = self._unknown.setdefault(value.host, _Unknown({}))
            unknown.values[value.item] = value
            return
        if self._kept.pop(value.item, None) is not None:
            self.dropped += 1
        self._queue.append(value)
        self._newest[value.item] = value
        self._shrink()

    def _shrink(self) -> None:
        while len(self._queue) > self._capacity:
            oldest = self._queue.popleft()
            if self._newest.get(oldest.item) is oldest:
                self._kept[oldest.item] = oldest
            else:
                self.dropped += 1

    def batch(self, now: float) -> list[Value]:
        """What to send now; empty if nothing. It stays the sender's until `taken`, `refused` or `give_back`."""
        if self._singles:
            return [self._singles.popleft()]
        if self._kept or self._queue:
            found = list(self._kept.values())[:BATCH]
            for value in found:
                del self._kept[value.item]
            found += [self._queue.popleft() for _ in range(min(BATCH - len(found), len(self._queue)))]
            return found
        for unknown in self._unknown.values():
            if unknown.values and unknown.due <= now:
                found = list(unknown.values.values())[:BATCH]
                for value in found:
                    del unknown.values[value.item]
                return found
        return []

    def due_in(self, now: float) -> float | None:
        """Seconds until `batch` has something; None if only a new value can change that."""
        if self._singles or self._kept or self._queue:
            return 0.0
        return min((max(0.0, u.due - now) for u in self._unknown.values() if u.values), default=None)

    def give_back(self, batch: Iterable[Value]) -> None:
        """Zabbix was not there: the batch waits at its old place."""
        for value in reversed(list(batch)):
            if value.item in self._known:
                self._queue.appendleft(value)
                self._newest.setdefault(value.item, value)
            else:
                self._retry(value)
        self._shrink()

    def taken(self, batch: Iterable[Value]) -> None:
        for value in batch:
            if self._newest.get(value.item) is value:
                del self._newest[value.item]
            unknown = self._unknown.get(value.host)
            if value.item not in self._known and unknown is not None:
                self._known.add(value.item)
                unknown.delay = RETRY_FIRST
                newer = unknown.values.pop(value.item, None)
                if newer is not None and newer is not value:
                    self.put(newer)

    def refused(self, batch: list[Value], failed: int, now: float) -> None:
        """Zabbix took all of the batch but `failed` values: it does not know their items, or no more."""
        for value in batch:
            self._known.discard(value.item)
            self._newest.pop(value.item, None)
        if len(batch) > 1 and failed < len(batch):
            self._singles.extend(batch)
            return
        for value in batch:
            self._retry(value)
        for host in {value.host for value in batch}:
            unknown = self._unknown[host]
            if unknown.due <= now:
                unknown.due = now + unknown.delay
                unknown.delay = min(RETRY_LAST, unknown.delay * 2)

    def _retry(self, value: Value) -> None:
        if any(single.item == value.item for single in self._singles):
            return  # a newer one is about to be tried: if Zabbix takes that, an older one must not come after it
        unknown = self._unknown.setdefault(value.host, _Unknown({}))
        newer = unknown.values.get(value.item)
        if newer is None or newer.at < value.at:
            unknown.values[value.item] = value

    def forget(self, host: str, keys: Iterable[str]) -> None:
        """These items' values need not be tried any more."""
        unknown = self._unknown.get(host)
        for key in keys:
            self._known.discard((host, key))
            if unknown is not None:
                unknown.values.pop((host, key), None)
