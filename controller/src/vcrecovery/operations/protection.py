"""After a failback: its VM serves, and a failure of it is failed over as ever, once its standby has everything."""

from __future__ import annotations

from collections.abc import Callable

from vcrecovery.core.service_state import Side
from vcrecovery.errors import ExternalError
from vcrecovery.keeping import spaced
from vcrecovery.operations.environment import Environment
from vcrecovery.transfer.freshness import wait_for_sync

#: Seconds for a comparison of the whole tree; between two looks whether the VM still is the one that serves.
WHOLE_WITHIN = 3600.0
LOOK_EVERY = 5.0


def until_protected(env: Environment, name: str, tell: Callable[[str], None]) -> float:
    """Waits until the standby has everything; the age of its files in seconds. `tell`: how far that is.

    Raises ExternalError when no comparison ends well, or the service is failed over meanwhile.
    """
    service, clock = env.plan.services[name], env.clock
    secondary = service.standby.secondary

    def look() -> None:
        state = env.journal.state(name)
        if state.side is not Side.PRIMARY or state.open_episode is not None:
            raise ExternalError(
                f"{name} went back to its VM, and is failed over again before its standby had everything",
                f"`vcrecovery history {name}` says why",
            )

    now_and_then = spaced(look, LOOK_EVERY, clock.steady)
    lxd, place = env.lxd[secondary], env.plan.secondaries[secondary]
    return wait_for_sync(lxd, name, place, clock, WHOLE_WITHIN, tell, now_and_then)
