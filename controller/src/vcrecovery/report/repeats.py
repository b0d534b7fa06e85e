"""What happened again and again is told once: a step that is tried until it works may be tried for hours. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from vcrecovery.core.episode import StepRecord

#: So many things at most make up what repeats itself, and so often at least.
_LONGEST, _OFTEN = 3, 4
_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Repeats:
    """`times` the same, between what stands before it and what comes after it."""

    times: int

    def __str__(self) -> str:
        return f"{self.times} times more the same, and then:"


def condensed(items: Sequence[_Item], key: Callable[[_Item], Hashable]) -> list[_Item | Repeats]:
    """Of each group of items that comes often in a row, the first one and the last one."""
    keys = [key(item) for item in items]
    found: list[_Item | Repeats] = []
    at = 0
    while at < len(items):
        size, times = _repetition(keys, at)
        end = at + size * times
        if times < _OFTEN:
            found.append(items[at])
            at += 1
            continue
        found += [*items[at : at + size], Repeats(times - 2), *items[end - size : end]]
        at = end
    return found


def _repetition(keys: Sequence[Hashable], at: int) -> tuple[int, int]:
    """How many items from there on make up what comes most often in a row, and how often it does."""
    best = (1, 1)
    for size in range(1, _LONGEST + 1):
        times = 1
        while keys[at + size * times : at + size * (times + 1)] == keys[at : at + size]:
            times += 1
        if times > best[1]:
            best = (size, times)
    return best


def same(record: StepRecord | None) -> Hashable:
    """What makes two tries the same to a person; None where nothing was running."""
    if record is None:
        return None
    return (
        record.step,
        record.ended_at is None,
        record.ok,
        record.error or record.summary,
    )
