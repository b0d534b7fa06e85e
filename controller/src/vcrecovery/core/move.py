"""A move: a standby that serves goes on to do so on another secondary. Pure.

It serves while its files are copied, and stops for the rest of them. Until its names have changed, whatever fails has
it serve again where it was: nobody has written on the other side. One that keeps its address keeps its clients: it goes
back only until one of its ports was reached there, and with its memory, only until it runs there.
"""

from __future__ import annotations

from vcrecovery.core.decisions import Close, Decision, Readiness, Run, Unmet, Wait
from vcrecovery.core.episode import Episode, Outcome, Step, StepRecord
from vcrecovery.core.evidence import Failed, Started
from vcrecovery.core.failback import COUNTS_FOR
from vcrecovery.core.policy import Policy
from vcrecovery.core.verification import next_of_verification

#: One of these that has failed ends a move: the next try is the operator's.
_GOES_BACK_AFTER = (Step.STOP, Step.LAST_COPY, Step.START, Step.PROBE)
#: Who moves services off secondaries that are overloaded, by itself: for the journal.
BALANCE = "balance"
_BACK = "it serves again where it was: "


def next_of_move(episode: Episode, policy: Policy, now: float, readiness: Readiness) -> Decision:
    """The next thing to do for a move; one human sentence says why."""
    if episode.tried(Step.STOP):
        return _from_the_stop_on(episode, policy, now, readiness)
    return up_to_the_stop(episode, policy, now)


def up_to_the_stop(episode: Episode, policy: Policy, now: float) -> Decision:
    """Whether it serves or waits: nothing is done to it up to then."""
    to = episode.request.to
    confirm = episode.done(Step.CONFIRM)
    if confirm is None or not confirm.is_recent(policy.confirmation_valid_for, now):
        return Run(Step.CONFIRM, f"{episode.cause}: checking everything first")
    saw = confirm.saw
    if saw.asked_for != episode.request.looks_for:
        return Run(Step.CONFIRM, f"{episode.cause}: checking for that what was not looked at")
    if found := [*([saw.standby_problem] if saw.standby_problem else []), *saw.problems]:
        return Close(Outcome.REFUSED, f"{episode.service} is not moved to {to}: {'; '.join(found)}", "fix that first")
    copied = episode.newest(Step.COPY)
    if copied is None or not copied.was_done or not copied.is_recent(COUNTS_FOR, now):
        return Run(Step.COPY, f"it {_goes_on(episode)}: copying it to {to}")
    return Run(Step.STOP, f"little is left to copy: {_stops(episode)}")


def _goes_on(episode: Episode) -> str:
    return "serves on" if episode.request.leaves is None else "waits where it is"


def _stops(episode: Episode) -> str:
    return "stopping it" if episode.request.leaves is None else "it takes no files any more"


def goes_back_after(step: Step, episode: Episode) -> bool:
    """Whether a failure of `step` has it serve again where it was. Not once its names may have changed."""
    return step in _GOES_BACK_AFTER and not episode.tried(Step.SWITCH) and not _is_there_for_good(episode)


def _is_there_for_good(episode: Episode) -> bool:
    """Whether its clients may have reached it there since its start: what it was before is old then."""
    start = episode.done(Step.START)
    if start is None or episode.tried(Step.TAKE_BACK):
        return False
    if episode.request.carries_memory:
        return True
    keeps_address = isinstance(start.evidence, Started) and start.evidence.keeps_address
    return keeps_address and any(_has_reached_it(record) for record in episode.steps if record.step is Step.PROBE)


def _has_reached_it(probe: StepRecord) -> bool:
    return probe.was_done or (isinstance(probe.evidence, Failed) and probe.evidence.reached)


def _from_the_stop_on(episode: Episode, policy: Policy, now: float, readiness: Readiness) -> Decision:
    name, to = episode.service, episode.request.to
    if episode.done(Step.SWITCH) is None:
        trouble = "" if _is_there_for_good(episode) else _trouble(episode, readiness)
        if episode.done(Step.TAKE_BACK) is not None:
            return Close(Outcome.TAKEN_BACK, f"{name} serves where it was: {trouble}")
        if trouble or episode.tried(Step.TAKE_BACK):
            return Run(Step.TAKE_BACK, f"{_BACK}{trouble}")
        if episode.done(Step.STOP) is None:
            return Run(Step.STOP, "stopping it with its memory" if episode.request.carries_memory else "stopping it")
        if episode.done(Step.LAST_COPY) is None:
            return Run(Step.LAST_COPY, "it has ended: copying the rest")
        if episode.done(Step.START) is None:
            return (
                readiness if isinstance(readiness, Wait) else Run(Step.START, f"{to} has everything: starting it there")
            )
        probe = episode.done(Step.PROBE)
        if probe is None:
            return Run(Step.PROBE, "it runs: waiting for its ports")
        if not policy.has_dns:
            return Close(Outcome.DONE, f"{name} is served on {to}; no DNS name follows it")
        if not episode.ports_seen_open(policy.probe_valid_for, now):
            return Run(Step.PROBE, "the ports were seen open before: looking again")
        return Run(Step.SWITCH, "every port answers: switching DNS")
    if episode.done(Step.VERIFY) is None:
        return next_of_verification(episode, policy, now)
    return Close(Outcome.DONE, f"{name} is served on {to}")


def _trouble(episode: Episode, readiness: Readiness) -> str:
    """Why it does not serve there; empty while nothing speaks against that, and once its names may have changed."""
    before = episode.newest(Step.TAKE_BACK)
    if before is not None:
        return before.sentence.removeprefix(_BACK)
    if episode.tried(Step.SWITCH):
        return ""
    for step in _GOES_BACK_AFTER:
        if failure := episode.failure_of(step):
            return failure
    if isinstance(readiness, Unmet) and not episode.tried(Step.START):
        return readiness.reason
    return ""
