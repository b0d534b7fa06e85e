"""Keep: what the standby was at its stop becomes a restore point, for a rollback, and it takes files again.

That it takes files is worth more than the way back: whatever stands in the way of the restore point is noted, and the
failback goes on.
"""

from __future__ import annotations

from vcrecovery.core.episode import Episode, Step
from vcrecovery.core.evidence import Kept
from vcrecovery.core.failback import commit_after
from vcrecovery.core.text import span
from vcrecovery.drivers.lxd.instances import STOPPED
from vcrecovery.errors import BusyError, ExternalError
from vcrecovery.operations.room import keeping_problem
from vcrecovery.operations.steps.back.hand_over import has_run_since_its_stop
from vcrecovery.operations.steps.subject import Subject
from vcrecovery.standby.container import KEEPING_KEY, ROLE_KEY, STANDBY, let_files_in
from vcrecovery.standby.kept_points import keep_as_of

#: Seconds from the hand-over after which nothing is begun any more: the service is not protected meanwhile.
BEGINS_WITHIN = 7200.0


def keep(subject: Subject, episode: Episode) -> Kept:
    """Raises ExternalError when nothing can be done now; RefusedError when the container is another epoch's."""
    stopped = episode.done(Step.STOP)
    # Before it is made: then it takes that room itself.
    why = _too_late(subject, episode) or keeping_problem(subject.lxd, subject.secondary.storage_pool, subject.name)

    def spoilt() -> str:
        return why or _spoilt(subject, episode)

    try:
        found, problem = keep_as_of(
            subject.env.plan,
            subject.name,
            subject.lxd,
            subject.env.clock,
            stopped.ended_at or 0.0 if stopped is not None else 0.0,
            spoilt,
        )
    except BusyError as error:
        raise ExternalError(error.message, error.hint) from error
    let_files_in(subject.lxd, lambda: subject.startable(episode))
    if found is None:
        return Kept(f"nothing, so no rollback is possible: {problem}", problem=problem)
    return Kept(f"as {found.name}, until {span(commit_after(episode))} after the end", found.name)


def _too_late(subject: Subject, episode: Episode) -> str:
    handed = episode.done(Step.HAND_OVER)
    ago = 0.0 if handed is None or handed.ended_at is None else subject.env.clock.now() - handed.ended_at
    failed = episode.last(Step.KEEP)
    if ago <= BEGINS_WITHIN or failed is None:
        return ""
    return f"given up {span(ago)} after the hand-over: {failed.error}"


def _spoilt(subject: Subject, episode: Episode) -> str:
    """Why what is there is not what the standby was at its stop, or has no room; empty when it can be kept."""
    found = subject.startable(episode)
    if KEEPING_KEY not in found.config or found.config.get(ROLE_KEY) != STANDBY:
        return "the standby takes files already"
    if found.status != STOPPED or has_run_since_its_stop(found, episode):
        return "its container has run since its stop"
    return ""
