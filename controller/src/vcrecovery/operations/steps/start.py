"""Start: the standby takes no files any more, and runs."""

from __future__ import annotations

import contextlib
from functools import partial

from vcrecovery.core.episode import Episode
from vcrecovery.core.evidence import Started
from vcrecovery.drivers.lxd import Instance, TryAgainError
from vcrecovery.drivers.lxd.instances import EndsAtOnceError
from vcrecovery.errors import ExternalError, RefusedError
from vcrecovery.operations.steps import memory, moving
from vcrecovery.operations.steps.subject import Subject
from vcrecovery.standby.container import ACTIVE, EPOCH_KEY, KEEPING_KEY, ROLE_KEY, STANDBY, boots_with_its_machine
from vcrecovery.standby.promote import promote, promote_again
from vcrecovery.transfer.sessions import SESSIONS_END_WITHIN, end_sessions


def start(subject: Subject, episode: Episode) -> Started:
    # From here on the receiver refuses files: a primary that comes back must not overwrite live data.
    instance = _claim(subject, episode)
    # Those that were let in before that would go on writing.
    ended = end_sessions(subject.env.plan.state_dir, subject.name, SESSIONS_END_WITHIN)
    # What has served before has files that are newer than its processes.
    bring_up = promote_again if episode.request.again or episode.request.back or episode.request.to else promote
    within = subject.service.timeouts.start
    if episode.request.carries_memory:
        bring_up, within = partial(promote_again, from_memory=True), max(within, memory.STARTS_WITHIN)
    try:
        how = bring_up(subject.lxd, instance, within)
    except EndsAtOnceError as error:
        raise ExternalError(f"{error.message}{subject.last_words()}", error.hint) from error
    subject.started_at = subject.env.clock.steady()
    summary = f"container {subject.name} on {subject.lxd.name}: {how}"
    if ended:
        summary += f"; {ended} session{'s' if ended > 1 else ''} of its primary ended"
    keeps_address = episode.request.moves and moving.keeps_address(subject)
    return Started(summary, instance.running, ended, instance.status, keeps_address=keeps_address)


def _claim(subject: Subject, episode: Episode) -> Instance:
    """Has the standby belong to this episode, if it may; as it was then."""
    claim = {ROLE_KEY: ACTIVE, EPOCH_KEY: str(episode.epoch), KEEPING_KEY: ""}
    claim |= boots_with_its_machine(subject.env.plan, subject.name)
    known = subject.standby_just_read()
    if known is not None and known.config.get(ROLE_KEY) == STANDBY:
        # That nothing has changed since is shown by the write, which comes with the ETag of that reading.
        with contextlib.suppress(TryAgainError, RefusedError):
            subject.lxd.configure(subject.startable(episode, known), claim)
            return known
    return subject.claim(episode, claim)
