"""What is known of a service. Values, times in seconds since the epoch (of Unix)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from vcrecovery.core.episode import Episode
from vcrecovery.core.power import ENDED_BY_A_FENCE
from vcrecovery.core.sighting import Sighting

#: Seconds after the withdrawal of a failover in which its fence may act all the same: libvirtd had it in its queue.
FENCE_ACTS_WITHIN = 60.0


class Side(StrEnum):
    """Who serves."""

    PRIMARY = "primary"
    STANDBY = "standby"


@dataclass(frozen=True)
class Serving:
    """Who serves, and since which failover. `at_work`: one is not finished, so that may change at any moment.

    `standby_on`: the secondary on which the standby is, serving or waiting; None: the one where it stands by.
    `written_off`: up to which epoch what has served there, on a secondary that was lost, is to serve no more.
    """

    side: Side = Side.PRIMARY
    epoch: int = 0
    at_work: bool = False
    standby_on: str | None = None
    written_off: int | None = None


@dataclass(frozen=True)
class Suspension:
    """The operator's word that automatic failover of this service stops for a while."""

    since: float
    until: float | None
    reason: str

    def holds(self, now: float) -> bool:
        return self.until is None or now < self.until


@dataclass(frozen=True)
class ServiceState:
    """What the journal knows of a service.

    `failed_over_at` is the end of its newest failover that was done, `withdrawn_at` of the newest that was withdrawn.
    `seen` is what a hypervisor said last of its primary. `standby_on`: see `Serving`.
    """

    service: str
    epoch: int = 0
    side: Side = Side.PRIMARY
    seen_running_at: float | None = None
    suspension: Suspension | None = None
    open_episode: Episode | None = None
    failed_over_at: float | None = None
    acknowledged_at: float | None = None
    withdrawn_at: float | None = None
    seen: Sighting | None = None
    standby_on: str | None = None

    @property
    def placed_on(self) -> str | None:
        """The secondary whose container counts: of whatever is done to it by an open move or failover, too."""
        episode = self.open_episode
        if episode is not None and episode.request.to is not None and episode.has_acted:
            return episode.request.to
        return self.standby_on

    @property
    def standby_serves(self) -> bool:
        """Whether its standby serves, and nobody is about to change that: also while it is copied for a move, or its VM
        fetches.
        """
        episode = self.open_episode
        as_ever = episode is None or (episode.request.ends_the_standby and not episode.has_acted)
        return self.side is Side.STANDBY and as_ever

    def may_be_our_doing(self, reason: str, now: float) -> bool:
        """Whether an end for libvirt's `reason` may be the fence of a failover that was withdrawn, acting late."""
        if reason not in ENDED_BY_A_FENCE or self.withdrawn_at is None:
            return False
        return 0 <= now - self.withdrawn_at < FENCE_ACTS_WITHIN

    def suspension_at(self, now: float) -> Suspension | None:
        """The suspension that holds at that time."""
        return self.suspension if self.suspension is not None and self.suspension.holds(now) else None

    def cools_until(self, cool_down: float) -> float | None:
        """Until when no failover of it begins by itself; None when its newest one was acknowledged, or there is none.

        The time may be over already. `cool_down` in seconds.
        """
        if self.failed_over_at is None:
            return None
        if self.acknowledged_at is not None and self.acknowledged_at >= self.failed_over_at:
            return None
        return self.failed_over_at + cool_down

    def cools(self, cool_down: float, now: float) -> bool:
        until = self.cools_until(cool_down)
        return until is not None and now < until
