"""What a failover or a planned move would do now, and how long that took the last time. Nothing is touched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from vcrecovery.core.decide import decide
from vcrecovery.core.decisions import Blocked, Close, Run
from vcrecovery.core.episode import Episode, Request, Step
from vcrecovery.core.hooks import Moment
from vcrecovery.core.policy import Policy
from vcrecovery.core.service_state import ServiceState, Side
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.first_look import first_look
from vcrecovery.operations.hooks import OperatorsHooks
from vcrecovery.operations.places import aimed, on_its_way
from vcrecovery.operations.policy import policy_for
from vcrecovery.operations.serving import standby_serves

#: Of the newest episodes, so many are looked through for the time that a step took.
LOOKED_THROUGH = 50
_PLANNED = (Step.SHUTDOWN, Step.LAST_FILES)
_ALWAYS = (Step.FENCE, Step.START, Step.PROBE)
_DNS = (Step.SWITCH, Step.VERIFY)
_MOVE = (Step.COPY, Step.STOP, Step.LAST_COPY, Step.START, Step.PROBE)
_WAITING_MOVE = (Step.COPY, Step.STOP, Step.LAST_COPY, Step.RECEIVE, Step.SYNC)
_BACK = (Step.BOOT, Step.COPY, Step.STOP, Step.LAST_COPY, Step.HAND_OVER, Step.PROBE, Step.KEEP)


@dataclass(frozen=True)
class DryRun:
    """`steps`: each with the seconds of its last time, None where it was never done. `refused`: why there are none.

    `saw`: what was found of the primary. `under_way`: the epoch of the episode that would go on.
    `hooks`: the operator's commands that would run.
    """

    service: str
    saw: str = ""
    refused: str = ""
    hint: str = ""
    nothing_to_do: str = ""
    under_way: int | None = None
    steps: tuple[tuple[Step, float | None], ...] = ()
    hooks: tuple[str, ...] = ()

    @property
    def seconds(self) -> float | None:
        """All steps together, as far as they were ever done."""
        known = [seconds for _, seconds in self.steps if seconds is not None]
        return sum(known) if known else None


def dry_run(env: Environment, service: str, cause: str, request: Request) -> DryRun:
    """Raises ExternalError when the primary or its standby cannot be looked at."""
    state = env.journal.state(service)
    moves = request.moves
    request = aimed(env, state, request)
    if moves and request.to is None:
        does = "serves" if state.side is Side.STANDBY else "waits"
        return DryRun(service, nothing_to_do=f"it {does} on {env.plan.services[service].standby.secondary} already")
    with on_its_way(env, request, service):
        return _as_placed(env, state, cause, request)


def _as_placed(env: Environment, state: ServiceState, cause: str, request: Request) -> DryRun:
    service = state.service
    policy = policy_for(env, service)
    open_episode = state.open_episode
    back = request.back or (open_episode is not None and open_episode.has_acted and open_episode.request.back)
    # The two ways have steps of the same name.
    history = [
        e
        for e in env.journal.history(service, LOOKED_THROUGH)
        if (e.request.back, e.request.moves, e.request.leaves is None) == (back, request.moves, request.leaves is None)
    ]
    if request.back and open_episode is None and state.side is Side.PRIMARY:
        return DryRun(service, nothing_to_do="its primary serves")
    if open_episode is None and state.side is Side.STANDBY and not request.ends_the_standby:
        if request.to is None and standby_serves(env, service):
            return DryRun(service, nothing_to_do=f"its standby serves since epoch {state.epoch}")
        if request.planned:
            hint = f"`vcrecovery failover {service}` brings it up"
            return DryRun(service, refused="its standby is to serve and does not answer", hint=hint)
        request = replace(request, again=True)
    if open_episode is not None and (open_episode.has_acted or open_episode.tried(Step.STOP)):
        following = decide(open_episode, policy, env.clock.now())
        left = [step for step in _steps_of(open_episode.request, policy) if open_episode.done(step) is None]
        if isinstance(following, Run) and following.step not in left:
            # On the way back.
            left = [following.step]
        return DryRun(service, under_way=open_episode.epoch, steps=_timed(left, history))
    proof, decision = first_look(env, state, cause, request)
    if isinstance(decision, Close | Blocked):
        return DryRun(service, proof.summary, refused=decision.sentence, hint=decision.hint)
    if request.leaves is not None:
        return DryRun(service, proof.summary, steps=_timed(_WAITING_MOVE, history))
    moments = (Moment.AFTER_SWITCH,) if request.back else (Moment.BEFORE_START, Moment.AFTER_SWITCH)
    hooks = tuple(OperatorsHooks(env, service, lambda _episode, _text: None).in_words(moments))
    return DryRun(service, proof.summary, steps=_timed(_steps_of(request, policy), history), hooks=hooks)


def _steps_of(request: Request, policy: Policy) -> list[Step]:
    if request.leaves is not None:
        return list(_WAITING_MOVE)
    own = _BACK if request.back else _MOVE if request.moves else (*_ALWAYS, *(_PLANNED if request.planned else ()))
    wanted = {*own, *(_DNS if policy.has_dns else ())}
    if policy.on_demand and not request.back:
        wanted.add(Step.POWER_ON)
    if request.restore_point is not None:
        wanted.add(Step.RESTORE)
    return [step for step in Step if step in wanted]


def _timed(steps: Sequence[Step], history: Sequence[Episode]) -> tuple[tuple[Step, float | None], ...]:
    """`history`: the newest first."""

    def last_time(step: Step) -> float | None:
        tries = chain.from_iterable(reversed(episode.steps) for episode in history)
        done = (r for r in tries if r.step is step and r.was_done and r.ended_at is not None)
        return next((max(0.0, (r.ended_at or 0.0) - r.begun_at) for r in done), None)

    return tuple((step, last_time(step)) for step in steps)
