"""What is done about a container that is to serve, and has ended. Pure. Times in seconds.

Nobody's wish: it is started again, ever later, and after a few times no more. Somebody's: it is left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vcrecovery.core.episode import Episode, Outcome, Step, Symptom

#: After its end LXD gets so long to start it by itself, as after a reboot from inside.
GRACE = 0.5
#: Which wait comes before the first start, the second, ...; there are no more than these in a row.
#: The third is over before a fence counts no more (`Policy.fence_valid_for`): it needs no operator's word.
WAITS = (0.0, 10.0, 45.0, 300.0)
#: One that has served for so long ends for another reason: the row begins anew.
STEADY = 600.0
#: So often what brings it up is tried within one of these.
TRIES = 5


@dataclass(frozen=True)
class StandbyEnd:
    """The end of a container that was to serve, at `epoch`.

    `asked_by`: whom LXD names for it; empty for nobody, or where nobody listened. `given_up`: why it is not started
    again, where nobody asked for its end. `started_at`: the last start before it by LXD's clock; None in entries of
    older versions.
    """

    epoch: int
    at: float
    asked_by: str = ""
    given_up: str = ""
    started_at: float | None = None

    def is_of(self, started_at: float) -> bool:
        """Whether a container that was last started then has not run since. LXD's clock and ours need not agree."""
        return started_at == self.started_at if self.started_at is not None else started_at <= self.at


def starts_in_a_row(history: Sequence[Episode], ended_at: float, acknowledged_at: float | None) -> int:
    """How often it was started again automatically, each time soon after the last, up to the end then.

    `history` is newest first. What the operator has done or acknowledged begins a new row.
    """
    found, until = 0, ended_at
    for episode in history:
        if not episode.request.again:
            break
        served_from = _served_from(episode)
        if served_from is None or episode.request.symptom is Symptom.SECONDARY:
            # Of a machine that was away, its containers are not to blame.
            continue
        acknowledged = acknowledged_at is not None and served_from <= acknowledged_at
        if not episode.request.automatic or acknowledged or until - served_from >= STEADY:
            break
        found, until = found + 1, episode.opened_at
    return found


def _served_from(episode: Episode) -> float | None:
    """None where it did not come to that. One that was given up, as a name server was away, served all the same."""
    if episode.outcome is Outcome.DONE:
        return episode.closed_at or episode.opened_at
    switched = episode.done(Step.SWITCH)
    return switched.ended_at if episode.outcome is Outcome.GIVEN_UP and switched is not None else None


def wait_before(starts: int) -> float | None:
    """Seconds from its end to the next start, after so many in a row; None when there is to be no other one."""
    return WAITS[starts] if starts < len(WAITS) else None
