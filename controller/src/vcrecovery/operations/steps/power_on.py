"""Power on: the secondary of the standby boots, and its LXD answers."""

from __future__ import annotations

from collections.abc import Callable

from vcrecovery.core.episode import Episode
from vcrecovery.core.evidence import PoweredOn
from vcrecovery.operations.secondary_power import SecondaryPower
from vcrecovery.operations.steps.subject import Subject


def power_on(subject: Subject, episode: Episode, tell: Callable[[str], None]) -> PoweredOn:
    """Raises ExternalError when it does not come up."""
    name = subject.service.standby.secondary
    done = SecondaryPower(subject.env, name).power_on(f"{episode.request.verb} of {subject.name}", tell)
    subject.forget_standby()
    return done
