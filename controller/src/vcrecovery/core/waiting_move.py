"""A move of a standby that waits: its primary serves all the time, and its sync follows. Pure.

Both containers are whole from the end of the last copy on, so whatever fails, one of them stands by: the one that did,
until the other one takes the primary's files, and after that the other one. That one is given up again where the
primary's sync does not follow to it.
"""

from __future__ import annotations

from vcrecovery.core.decisions import Close, Decision, Run
from vcrecovery.core.episode import Episode, Outcome, Step
from vcrecovery.core.evidence import Confirmation
from vcrecovery.core.move import up_to_the_stop
from vcrecovery.core.policy import Policy
from vcrecovery.core.power import OFF, Power, may_run_elsewhere
from vcrecovery.core.sentences import listed

_GOES_BACK_AFTER = (Step.STOP, Step.LAST_COPY, Step.RECEIVE, Step.SYNC)
_BACK = "it takes files again where it was: "


def next_of_waiting_move(episode: Episode, policy: Policy, now: float) -> Decision:
    """The next thing to do; one human sentence says why."""
    name, to, leaves = episode.service, episode.request.to, episode.request.leaves
    if not episode.tried(Step.STOP):
        looked = episode.done(Step.CONFIRM)
        if looked is not None and looked.saw.power in OFF | {Power.ABSENT}:
            why, hint = _why_nothing_is_sent(looked.saw)
            return Close(Outcome.REFUSED, f"the standby of {name} is not moved to {to}: {why}", hint)
        return up_to_the_stop(episode, policy, now)
    trouble = _trouble(episode)
    if episode.done(Step.TAKE_BACK) is not None:
        return Close(Outcome.TAKEN_BACK, f"the standby of {name} waits on {leaves} as before: {trouble}")
    if trouble or episode.tried(Step.TAKE_BACK):
        return Run(Step.TAKE_BACK, f"{_BACK}{trouble}")
    if episode.done(Step.STOP) is None:
        return Run(Step.STOP, "it takes no files any more")
    if episode.done(Step.LAST_COPY) is None:
        return Run(Step.LAST_COPY, "nothing arrives any more: copying the rest")
    if episode.done(Step.RECEIVE) is None:
        return Run(Step.RECEIVE, f"{to} has everything: it takes the files there")
    if episode.done(Step.SYNC) is None:
        return Run(Step.SYNC, "waiting until its primary has compared everything, and vouches for it")
    return Close(Outcome.DONE, f"the standby of {name} waits on {to}")


def _why_nothing_is_sent(saw: Confirmation) -> tuple[str, str]:
    if not may_run_elsewhere(saw.power, saw.reason):
        return f"its VM is {saw.power}, and sends nothing there", "start it first"
    was_migrated = saw.reason == "migrated"
    why = f"its VM was migrated from {saw.host}, and" if was_migrated else "its VM may run elsewhere:"
    silent = f", and {listed(saw.silent)} does not answer" if saw.silent else ""
    return f"{why} no hypervisor of the plan says that it has it{silent}", (
        "add the one that has it to the plan, or mend the one that does not answer; do not start a second one"
    )


def goes_back_after(step: Step) -> bool:
    """Whether a failure of `step` has it take files again where it was."""
    return step in _GOES_BACK_AFTER


def _trouble(episode: Episode) -> str:
    """Why it does not wait there; empty while nothing speaks against that."""
    before = episode.newest(Step.TAKE_BACK)
    if before is not None:
        return before.sentence.removeprefix(_BACK)
    return next((why for step in _GOES_BACK_AFTER if (why := episode.failure_of(step))), "")
