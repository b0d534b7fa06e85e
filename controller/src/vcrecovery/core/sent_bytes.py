"""What the sync has sent, from a count that begins anew with each boot of the VM. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SentCount:
    """Bytes that a VM's kernel has counted since it was booted, or since it began to count."""

    boot: str | None
    total: int


def grown(before: SentCount | None, now: SentCount) -> int:
    """By how much; 0 for the first count that is ever heard, since nobody knows of when its bytes are."""
    if before is None:
        return 0
    anew = before.boot != now.boot or now.total < before.total
    return now.total if anew else now.total - before.total
