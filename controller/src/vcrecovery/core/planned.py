"""A switchover up to the start of its standby: the primary stops by itself, and runs again if anything fails. Pure.

Nothing that it has written may be lost, so nobody ends it: it is shut down, and says with its last act that everything
has been sent. Whoever makes a failover of a switchover under way (`--force`, `--primary-is-down`) gives that up.
"""

from __future__ import annotations

from vcrecovery.core.decisions import Close, Decision, Readiness, Run, Unmet
from vcrecovery.core.episode import Episode, Outcome, Step
from vcrecovery.core.evidence import Confirmation
from vcrecovery.core.policy import Policy
from vcrecovery.core.power import Power
from vcrecovery.core.sentences import listed

_BACK = "the VM takes over again: "
#: Seconds from the shutdown, within which the standby has to start: later, the VM may have run and stopped again.
GOES_ON_WITHIN = 1200.0
#: One of these that has failed ends a switchover: the next try is the operator's.
_GOES_BACK_AFTER = (Step.SHUTDOWN, Step.LAST_FILES, Step.FENCE, Step.POWER_ON, Step.START)


def up_to_the_start(episode: Episode, now: float, readiness: Readiness) -> Decision | None:
    """What comes next of a switchover that has acted; None where it goes on as a failover does."""
    if episode.done(Step.START) is not None:
        return None
    trouble = _trouble(episode, now, readiness)
    if episode.done(Step.TAKE_BACK) is not None:
        return Close(Outcome.TAKEN_BACK, f"{episode.service} is on its VM again: {trouble}")
    if trouble or episode.tried(Step.TAKE_BACK):
        return Run(Step.TAKE_BACK, f"{_BACK}{trouble}")
    if episode.done(Step.SHUTDOWN) is None:
        return shut_down(episode)
    if episode.done(Step.LAST_FILES) is None:
        return Run(Step.LAST_FILES, "the VM is off: checking that its last files have arrived")
    if episode.fence is None:
        return Run(Step.FENCE, "the standby is complete: making sure that the VM stays off")
    return None


def goes_back_after(step: Step, episode: Episode) -> bool:
    """Whether a failure of `step` is no end, since the primary has to serve again."""
    return episode.request.planned and step in _GOES_BACK_AFTER


def shut_down(episode: Episode) -> Run:
    return Run(Step.SHUTDOWN, f"{episode.cause}: shutting the VM down")


def _trouble(episode: Episode, now: float, readiness: Readiness) -> str:
    """Why its standby does not start; empty while nothing speaks against that."""
    before = episode.newest(Step.TAKE_BACK)
    if before is not None and before.sentence.startswith(_BACK):
        return before.sentence.removeprefix(_BACK)
    for step in _GOES_BACK_AFTER:
        if failure := episode.failure_of(step):
            return failure
    shut = episode.newest(Step.SHUTDOWN)
    if shut is not None and not 0 <= now - shut.begun_at <= GOES_ON_WITHIN:
        return f"it was interrupted {abs(now - shut.begun_at):.0f} s ago: nobody knows what its VM has done since"
    return readiness.reason if isinstance(readiness, Unmet) else ""


def objection(episode: Episode, saw: Confirmation, policy: Policy) -> Close | None:
    """Why the primary is not touched: everything that is known to speak against it."""
    found = [*_of_the_primary(saw), *_of_its_standby(episode, saw, policy), *saw.problems]
    if not found:
        return None
    return Close(Outcome.REFUSED, f"{episode.service} is not switched over: {'; '.join(found)}", "fix that first")


def _of_the_primary(saw: Confirmation) -> list[str]:
    if saw.power is not Power.RUNNING:
        if saw.detail and not saw.reason:
            return [f"its VM cannot be asked to shut down: {saw.detail}"]
        said = f"{saw.power} ({saw.reason})" if saw.reason else str(saw.power)
        return [f"its VM has to run to be shut down, and is {said}"]
    if saw.also_on:
        return [f"its VM is also on {listed(saw.also_on)}"]
    return []


def _of_its_standby(episode: Episode, saw: Confirmation, policy: Policy) -> list[str]:
    if saw.standby_problem:
        return [saw.standby_problem]
    if saw.freshness is None:
        return [f"the age of its standby is not known: {saw.freshness_detail}"]
    if saw.freshness > policy.max_staleness:
        limit = f"its max_staleness of {policy.max_staleness:.0f} s"
        return [f"its standby is {saw.freshness:.0f} s old, more than {limit}"]
    if saw.boot is None:
        return ["its VM would not send its last files at a shutdown: run the role `primary`"]
    if saw.final:
        return ["its VM has sent no heartbeat since it booted"]
    if saw.heard is not None and saw.heard > policy.no_heartbeat_for:
        return [f"its VM has sent no heartbeat for {saw.heard:.0f} s"]
    return []
