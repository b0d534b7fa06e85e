"""An old primary that comes back although its standby serves: whether it must be held paused. Pure.

Two live copies of a service are what a failover must never lead to. Nobody inside the VM is asked: its hypervisor
pauses it. A primary that an operator resumes all the same is paused again; `vcrecovery suspend` is the way to have it
left alone, as for everything else that happens to a primary.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from vcrecovery.core.episode import Step
from vcrecovery.core.power import OFF, Power
from vcrecovery.core.service_state import ServiceState, Side


@dataclass(frozen=True)
class Quarantine:
    """An old primary that was found running at `found_at` and has been paused since `held_at`.

    `released`: why it is not held any more; while `released_at` is None, it is, or is about to be. `host`: where; empty
    in entries of older versions, for the plan's hypervisor.
    """

    id: int
    service: str
    epoch: int
    uuid: str
    found_at: float
    held_at: float | None = None
    released_at: float | None = None
    released: str = ""
    host: str = ""


class Act(StrEnum):
    """What is to be done with the VM, or with what is written of it."""

    NOTHING = "nothing"
    PAUSE = "pause"
    #: It is paused, by a controller that did not live to write it down.
    NOTE = "note"
    RESUME = "resume"
    #: Only the entry in the journal ends.
    FORGET = "forget"


def epoch_has_passed(state: ServiceState) -> bool:
    """Whether the primary was fenced, and its standby serves or will: from then on it must not run."""
    episode = state.open_episode
    return state.side is Side.STANDBY or (episode is not None and episode.ever_fenced)


def _goes_back(state: ServiceState) -> bool:
    """Whether its VM is wanted to run: it starts none of its services before it is told to."""
    episode = state.open_episode
    return episode is not None and episode.request.back and episode.tried(Step.BOOT)


def decide(state: ServiceState, power: Power, quarantine: Quarantine | None, now: float) -> Act:
    """What to do about a primary that is in state `power`; `quarantine` is the one that was not released."""
    if quarantine is not None and (power in OFF or power is Power.ABSENT):
        return Act.FORGET
    if power not in (Power.RUNNING, Power.PAUSED):
        return Act.NOTHING
    if _goes_back(state) or state.suspension_at(now):
        return Act.FORGET if quarantine is not None and power is Power.RUNNING else Act.NOTHING
    if epoch_has_passed(state):
        if power is Power.RUNNING:
            return Act.PAUSE
        return Act.NOTE if quarantine is not None and quarantine.held_at is None else Act.NOTHING
    if quarantine is None or state.open_episode is not None:
        return Act.NOTHING
    return Act.RESUME if power is Power.PAUSED else Act.FORGET


def why_forgotten(power: Power) -> str:
    """For the journal."""
    return "it was resumed by hand" if power is Power.RUNNING else f"it is {power}"
