"""What a try of the fence may do, and what it leaves to another look. Pure: the tests' world follows it too."""

from __future__ import annotations

from collections.abc import Callable, Collection

from vcrecovery.core.power import Power
from vcrecovery.core.states import Episode, Step, StepRecord


def was_away(look: StepRecord | None) -> bool:
    """Whether libvirt did not answer at that confirmation."""
    return look is not None and look.evidence["power"] == Power.UNREACHABLE


def must_look_again(episode: Episode) -> bool:
    """Whether a primary that turns out to run, now that its hypervisor is back, is looked at before it is destroyed.

    One that was proved off before is not: nobody lets it live any more.
    """
    return was_away(episode.done(Step.CONFIRM)) and not (episode.request.force or episode.ever_fenced)


def may_power_off(episode: Episode, now: float, silent_for: float, neighbours: Callable[[], Collection[str]]) -> bool:
    """Whether the hypervisor may be ended with all that runs on it (see `_not_to_be_powered_off` in the core).

    The core has said so when libvirt did not answer at any confirmation. When it answered in between, or was proved
    off before, what runs there is asked again (`neighbours`); when it went away only then, a libvirtd that restarts is
    waited for, `silent_for` seconds.
    """
    away_at_first = was_away(episode.first_confirmed)
    still_away = was_away(episode.done(Step.CONFIRM)) and not episode.ever_fenced
    if away_at_first and (episode.request.force or still_away):
        return True
    begun = min((record.begun_at for record in episode.steps if record.step is Step.FENCE), default=now)
    return (away_at_first or now - begun >= silent_for) and not neighbours()
