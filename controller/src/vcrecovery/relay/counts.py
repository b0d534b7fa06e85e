"""What became of every datagram: taken, a question, or one counter for each reason why it was not taken."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum


class Reason(StrEnum):
    STRANGER = "from strangers"
    RATE = "too many of one hypervisor"
    ENCODING = "bad BER"
    ENGINE = "wrong engine ID"
    OTHER_RELAY = "for another relay's engine ID (restart snmpd there)"
    USER = "unknown user"
    CREDENTIALS = "bad credentials"
    LATE = "too old"
    REPEATED = "heard before"
    MIB = "not of LIBVIRT-MIB"
    GUEST = "unknown UUID"
    OVERFLOW = "came faster than they were read"


class Counts:
    """How many were taken, how many not, and who sent the last of each kind."""

    def __init__(self) -> None:
        self.taken = 0
        #: Questions of senders for this relay's engine ID and clock.
        self.questions = 0
        #: What snmpd tells of itself: its start, its end.
        self.of_snmpd = 0
        #: Notifications that a genuine sender has sent again.
        self.again = 0
        self.rejected: Counter[Reason] = Counter()
        self._last: dict[Reason, str] = {}
        self._said: dict[Reason, int] = {}

    def reject(self, reason: Reason, address: str, count: int = 1) -> None:
        self.rejected[reason] += count
        self._last[reason] = address

    def news(self) -> str:
        """What has grown since this was asked last, as a sentence; empty when nothing has."""
        grown = {reason: n for reason, n in self.rejected.items() if n != self._said.get(reason, 0)}
        parts = [
            f"{reason}: {n - self._said.get(reason, 0)} (in all {n}, last from {self._last[reason]})"
            for reason, n in sorted(grown.items())
        ]
        self._said.update(grown)
        return "notifications not taken: " + "; ".join(parts) if parts else ""

    def as_document(self) -> dict[str, int]:
        heard = {"taken": self.taken, "again": self.again, "questions": self.questions, "of_snmpd": self.of_snmpd}
        return heard | {reason.name.lower(): self.rejected[reason] for reason in Reason}
