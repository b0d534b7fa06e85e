"""What a machine has, and what is taken of it."""

from __future__ import annotations

from typing import NamedTuple


class Amounts(NamedTuple):
    """`cpu` in cores, `memory` and `disk` (of its pool) in bytes, `network` in bytes a second.

    `io`: of the disk latency that the plan allows, from 0 to 1.
    """

    cpu: float = 0.0
    memory: float = 0.0
    disk: float = 0.0
    io: float = 0.0
    network: float = 0.0

    def plus(self, other: Amounts) -> Amounts:
        return Amounts(*(own + more for own, more in zip(self, other, strict=True)))

    def minus(self, other: Amounts) -> Amounts:
        return Amounts(*(own - less for own, less in zip(self, other, strict=True)))

    def times(self, share: Amounts) -> Amounts:
        return Amounts(*(own * part for own, part in zip(self, share, strict=True)))

    def holds(self, other: Amounts) -> bool:
        """Whether all of `other` fits into it. What is none fits, also where less than nothing is free."""
        return all(wanted <= 0 or own >= wanted for own, wanted in zip(self, other, strict=True))
