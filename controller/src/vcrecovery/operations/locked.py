"""One failover of one service of the plan, for whoever asked for it: under its lock, and only if there is one to do."""

from __future__ import annotations

from dataclasses import replace

from vcrecovery.core.episode import Episode, Request
from vcrecovery.core.service_state import ServiceState, Side
from vcrecovery.errors import RefusedError
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.failover import Gate, ProgressReporter, fail_over
from vcrecovery.operations.failover_steps import FailoverSteps
from vcrecovery.operations.policy import policy_for
from vcrecovery.operations.serving import standby_serves
from vcrecovery.store.lock import service_lock


def fail_over_locked(
    env: Environment,
    service: str,
    cause: str,
    request: Request,
    *,
    reporter: ProgressReporter,
    gate: Gate,
    detected_at: float | None = None,
) -> Episode | None:
    """The closed episode; None when its standby serves already. Raises as `fail_over` does, and BusyError.

    A standby that is to serve and does not answer is brought up again, but not automatically.
    """
    with service_lock(env.plan.state_dir, service, clock=env.clock):
        state = env.journal.state(service)
        if state.side is Side.STANDBY and state.open_episode is None:
            if request.automatic or standby_serves(env, service):
                return None
            cause = f"{cause}: its standby does not answer"
        request = replace(request, again=_is_again(state))
        if request.again and request.restore_point is not None:
            raise RefusedError(
                f"the standby of {service} has served since epoch {state.epoch}: a restore point would throw away what "
                "it has written",
                f"`vcrecovery failover {service}` brings it up as it is",
            )
        return fail_over(
            service,
            cause,
            request,
            policy=policy_for(env, service),
            actuator=FailoverSteps(env, service),
            journal=env.journal,
            clock=env.clock,
            reporter=reporter,
            detected_at=detected_at,
            gate=gate,
        )


def _is_again(state: ServiceState) -> bool:
    """Whether the standby was the one that serves before this failover, or the one that is open, began."""
    return state.side is Side.STANDBY if state.open_episode is None else state.open_episode.request.again
