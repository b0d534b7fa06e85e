"""What a machine has, and what is taken of it."""

from __future__ import annotations

from typing import NamedTuple


class Amounts(NamedTuple):
    """`cpu` in cores, `memory` and `disk` in bytes."""

    cpu: float = 0.0
    memory: float = 0.0
    disk: float = 0.0

    def plus(self, other: Amounts) -> Amounts:
        return Amounts(self.cpu + other.cpu, self.memory + other.memory, self.disk + other.disk)

    def minus(self, other: Amounts) -> Amounts:
        return Amounts(self.cpu - other.cpu, self.memory - other.memory, self.disk - other.disk)

    def times(self, share: Amounts) -> Amounts:
        return Amounts(self.cpu * share.cpu, self.memory * share.memory, self.disk * share.disk)

    def holds(self, other: Amounts) -> bool:
        """Whether all of `other` fits into it."""
        return self.cpu >= other.cpu and self.memory >= other.memory and self.disk >= other.disk
