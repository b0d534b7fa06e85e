"""A failback: the VM fetches what its standby has written, and takes over once nothing is left to fetch. Pure.

The standby serves until then. From its stop up to the moment in which the VM is told to serve, whatever fails has the
standby serve again; after that moment the only way is forward, since the VM may have written.
"""

from __future__ import annotations

from collections.abc import Iterable

from vcrecovery.core.decisions import Close, Decision, Run
from vcrecovery.core.episode import Episode, Outcome, Step
from vcrecovery.core.evidence import Confirmation, Failed, Kept
from vcrecovery.core.policy import Policy
from vcrecovery.core.power import Power
from vcrecovery.core.sentences import listed
from vcrecovery.core.verification import next_of_verification

#: Seconds for which a copy of everything leaves little to be fetched after the stop, and a VM that was up still is.
COUNTS_FOR = 60.0
#: So many passes at most, since the standby may write faster than the VM fetches.
PASSES = 6
#: A pass that took no longer than this is short enough to be waited for while nobody serves; seconds.
SHORT_PASS = 5.0
#: The next pass would not be much shorter than one that took this part of the one before.
_NO_SHORTER = 0.7
#: Seconds from its end for which a rollback is possible, where the operator does not say otherwise.
COMMIT_AFTER = 3600.0
_UP_TO_THE_STOP = (Step.BOOT, Step.COPY)


def next_of_failback(episode: Episode, policy: Policy, now: float) -> Decision:
    """The next thing to do for a failback; one human sentence says why."""
    if episode.tried(Step.STOP):
        return _from_the_stop_on(episode, policy, now)
    confirm = episode.done(Step.CONFIRM)
    looked = confirm is not None and confirm.saw.asked_for == episode.request.looks_for
    if confirm is None or not looked or not confirm.is_recent(policy.confirmation_valid_for, now):
        return Run(Step.CONFIRM, f"{episode.cause}: checking everything first")
    if (objection := _objection(episode, confirm.saw)) is not None:
        return objection
    newest = next((record for record in reversed(episode.steps) if record.step in _UP_TO_THE_STOP), None)
    if newest is None or not newest.was_done or not newest.is_recent(COUNTS_FOR, now):
        return Run(Step.BOOT, "the standby serves on: the VM is to run without serving")
    if newest.step is Step.BOOT:
        return Run(Step.COPY, "the VM starts no service: it fetches what the standby has written")
    return Run(Step.STOP, "little is left to fetch: stopping the standby")


def is_copied(seconds: list[float]) -> bool:
    """Whether so little is left that the standby may stop; `seconds`: how long each pass took."""
    if len(seconds) < 2:
        return False
    return len(seconds) >= PASSES or seconds[-1] <= SHORT_PASS or seconds[-1] >= _NO_SHORTER * seconds[-2]


def goes_back_after(step: Step, *, refused: bool) -> bool:
    """Whether a failure of `step` has the standby serve again. `refused`: it has done nothing."""
    return step in (Step.STOP, Step.LAST_COPY) or (step is Step.HAND_OVER and refused)


def kept_by(episode: Episode) -> Kept | None:
    """What a failback has kept, or why nothing; None while it has not come to that."""
    record = episode.done(Step.KEEP)
    return record.evidence if record is not None and isinstance(record.evidence, Kept) else None


def keeper_of(restore_point: str, failbacks: Iterable[Episode]) -> Episode | None:
    """The one that has kept this."""
    return next((f for f in failbacks if (kept := kept_by(f)) and kept.restore_point == restore_point), None)


def commit_after(episode: Episode) -> float:
    """Seconds from its end for which what it has kept stays."""
    asked = episode.request.commit_after
    return COMMIT_AFTER if asked is None else asked


def kept_until(episode: Episode) -> float | None:
    """When what it has kept is committed; None while it keeps nothing, or has not ended."""
    kept = kept_by(episode)
    return _commit_at(episode) if kept is not None and kept.restore_point else None


def is_to_be_committed(episode: Episode, now: float) -> bool:
    """A clock that was set back puts it off: what is committed cannot be had back."""
    at = _commit_at(episode)
    return at is not None and now >= at


def _commit_at(episode: Episode) -> float | None:
    return None if episode.closed_at is None else episode.closed_at + commit_after(episode)


def _objection(episode: Episode, saw: Confirmation) -> Close | None:
    """Why nothing is begun: everything that is known to speak against it."""
    found = [*_of_the_vm(episode, saw), *([saw.standby_problem] if saw.standby_problem else []), *saw.problems]
    if not found:
        return None
    return Close(Outcome.REFUSED, f"{episode.service} does not go back to its VM: {'; '.join(found)}", "fix that first")


def _of_the_vm(episode: Episode, saw: Confirmation) -> list[str]:
    if saw.also_on:
        return [f"its VM is also on {listed(saw.also_on)}"]
    if saw.power in (Power.ABSENT, Power.UNREACHABLE) or saw.reason == "migrated":
        return [saw.detail or f"its VM is {saw.power} on {saw.host}"]
    serves = saw.power is Power.RUNNING and saw.open_ports and not saw.closed_ports
    if serves and not (episode.tried(Step.BOOT) or episode.request.rebuilt):
        # Somebody has started it beside its standby. What it has written since is theirs to give up.
        return [f"its VM answers on {', '.join(saw.open_ports)}: it may serve too; shut it down"]
    return []


def _from_the_stop_on(episode: Episode, policy: Policy, now: float) -> Decision:
    name = episode.service
    if episode.done(Step.HAND_OVER) is None:
        trouble = _trouble(episode)
        if episode.done(Step.START) is not None:
            return Close(Outcome.TAKEN_BACK, f"{name} is served by its standby again: {trouble}")
        if trouble:
            return Run(Step.START, f"the standby serves again: {trouble}")
        if episode.done(Step.STOP) is None:
            return Run(Step.STOP, "stopping the standby")
        if episode.done(Step.LAST_COPY) is None:
            return Run(Step.LAST_COPY, "the standby has ended: the VM fetches the rest")
        return Run(Step.HAND_OVER, "the VM has everything: it takes over")
    return _up_to_the_end(episode, policy, now)


def _trouble(episode: Episode) -> str:
    """Why the VM does not take over; empty while nothing speaks against that."""
    for step in (Step.STOP, Step.LAST_COPY, Step.HAND_OVER):
        last = episode.last(step)
        if last is None or last.was_done:
            continue
        refused = isinstance(last.evidence, Failed) and last.evidence.refused
        if goes_back_after(step, refused=refused):
            return episode.failure_of(step)
    return ""


def _up_to_the_end(episode: Episode, policy: Policy, now: float) -> Decision:
    probe, name = episode.done(Step.PROBE), episode.service
    if probe is None:
        return Run(Step.PROBE, "the VM takes over: waiting for its ports")
    if policy.has_dns and episode.done(Step.SWITCH) is None:
        if not episode.ports_seen_open(policy.probe_valid_for, now):
            return Run(Step.PROBE, "the ports were seen open before: looking again")
        return Run(Step.SWITCH, "every port answers: switching DNS back")
    if policy.has_dns and episode.done(Step.VERIFY) is None:
        if episode.last(Step.VERIFY) is not None and episode.done(Step.KEEP) is None:
            # Up to that its standby takes no files, and a name server may be away for days.
            return Run(Step.KEEP, "the VM serves, and not every DNS server has it yet: keeping what its standby was")
        return next_of_verification(episode, policy, now)
    if episode.done(Step.KEEP) is None:
        return Run(Step.KEEP, "the VM serves: keeping what its standby was")
    return Close(Outcome.DONE, f"{name} is served by its VM")
