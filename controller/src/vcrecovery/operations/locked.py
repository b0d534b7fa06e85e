"""One failover of one service of the plan, for whoever asked for it: under its lock, and only if there is one to do."""

from __future__ import annotations

from vcrecovery.core.episode import Episode, Request
from vcrecovery.core.service_state import Side
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.failover import Gate, ProgressReporter, fail_over
from vcrecovery.operations.failover_steps import FailoverSteps
from vcrecovery.operations.policy import policy_for
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
    """The closed episode; None when its standby serves already. Raises as `fail_over` does, and BusyError."""
    with service_lock(env.plan.state_dir, service, clock=env.clock):
        state = env.journal.state(service)
        if state.side is Side.STANDBY and state.open_episode is None:
            return None
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
