"""What libvirt says of its VMs, read when somebody asks, and never waited for longer than snmpd can.

A sample is kept for a moment only, so that one walk sees one sample and two polls never see the same.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

log = logging.getLogger("vcrecovery.snmp")

#: Seconds a sample is good for.
KEEP = 0.5
#: Seconds a question waits for libvirt. Pollers give up after one second.
PATIENCE = 0.7

T = TypeVar("T")


class Samples(Generic[T]):
    """The newest sample, from a thread of its own: while that waits for a libvirt that hangs, there is none."""

    def __init__(self, read: Callable[[], Sequence[T]], now: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._now = now
        self._changed = threading.Condition()
        self._sample: Sequence[T] | None = None
        self._taken_at = float("-inf")
        self._asked_at: float | None = None
        self._said = ""
        threading.Thread(target=self._keep_reading, name="samples", daemon=True).start()

    def ask(self) -> float:
        """Has a sample be read, without waiting for it. Returns since when one is being read."""
        with self._changed:
            if self._asked_at is None:
                self._asked_at = self._now()
                self._changed.notify_all()
            return self._asked_at

    def newest(self) -> Sequence[T] | None:
        """None while libvirt does not answer. The very same object as before while the last sample is good."""
        with self._changed:
            if self._now() - self._taken_at <= KEEP:
                return self._sample
            # Only the first question waits: while libvirt hangs, all others are answered at once.
            patience = self.ask() + PATIENCE - self._now()
            self._changed.wait_for(lambda: self._asked_at is None, timeout=max(patience, 0.0))
            return self._sample if self._asked_at is None else None

    def _keep_reading(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._asked_at is not None)
            try:
                sample, said = self._read(), ""
            except Exception as error:  # noqa: BLE001  the table must outlive whatever libvirt does
                sample, said = None, " ".join(str(error).split())
            with self._changed:
                if said and said != self._said:
                    log.warning("%s", said)
                self._said = said
                self._sample = sample
                self._taken_at, self._asked_at = self._now(), None
                self._changed.notify_all()
