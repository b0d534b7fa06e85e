"""One failover of one service of the plan, for whoever asked for it: under its lock, and only if there is one to do."""

from __future__ import annotations

from vcrecovery.core.states import Episode, Request, Side
from vcrecovery.operations.environment import World
from vcrecovery.operations.failover import Gate, Teller, fail_over
from vcrecovery.operations.outside import Outside, policy_for
from vcrecovery.store.lock import service_lock


def fail_over_locked(
    world: World,
    service: str,
    cause: str,
    request: Request,
    *,
    teller: Teller,
    gate: Gate,
    detected_at: float | None = None,
) -> Episode | None:
    """The closed episode; None when its standby serves already. Raises as `fail_over` does, and BusyError."""
    with service_lock(world.plan.state_dir, service):
        state = world.journal.state(service)
        if state.side is Side.STANDBY and state.open_episode is None:
            return None
        return fail_over(
            service,
            cause,
            request,
            policy=policy_for(world, service),
            actuator=Outside(world, service),
            journal=world.journal,
            clock=world.clock,
            teller=teller,
            detected_at=detected_at,
            gate=gate,
        )
