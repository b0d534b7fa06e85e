"""A secondary that is made for a while: what happened to it so far. Pure.

Asked for, made, joined (its LXD answers, and standbys may go there), releasing (nothing may go there any more), gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

#: Seconds after which a destroy that failed is tried again; twice as long each time, up to the longest.
_AGAIN, LONGEST = 60.0, 3600.0


class LeaseState(StrEnum):
    ASKED = "asked"
    MADE = "made"
    JOINED = "joined"
    RELEASING = "releasing"
    GONE = "gone"


@dataclass(frozen=True)
class Lease:
    """`token`: how its provisioner knows it. `why`: it was asked for. Times are seconds since the epoch.

    `network`: of its standbys, the bridge's address. `addresses`: of each service that may go there. `machine`: the
    provisioner's word for it. `options`: what that was given for it; None: nobody has noted it. `failure`: why it never
    joined, or is ended. `trouble`: why the last step failed; it is tried again at `not_before`, after so many `tries`.
    """

    number: int
    token: str
    state: LeaseState
    why: str
    network: str
    asked_at: float
    made_at: float | None = None
    joined_at: float | None = None
    releasing_at: float | None = None
    gone_at: float | None = None
    machine: str = ""
    address: str = ""
    port: int = 0
    failure: str = ""
    trouble: str = ""
    tries: int = 0
    not_before: float = 0.0
    addresses: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        """As a secondary; never that of another one, so that nobody takes what he knows of one for another's."""
        return f"elastic-{self.number}"

    @property
    def is_open(self) -> bool:
        return self.state is not LeaseState.GONE

    @property
    def is_coming(self) -> bool:
        return self.state in (LeaseState.ASKED, LeaseState.MADE)

    def again_at(self, now: float) -> float:
        """When a step that has failed now is tried again."""
        return now + min(_AGAIN * 2.0**self.tries, LONGEST)


def not_before(newest_first: list[Lease], calm: float, longest: float) -> float:
    """When another one may be asked for, as far as those that never joined have a say: each time twice as long."""
    failed = []
    for lease in newest_first:
        if lease.joined_at is not None:
            break
        if not lease.is_open:
            failed.append(lease)
    if not failed or failed[0].gone_at is None:
        return 0.0
    return failed[0].gone_at + min(calm * 2.0 ** (len(failed) - 1), longest)
