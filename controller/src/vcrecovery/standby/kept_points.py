"""What a standby was at the stop of a failback: a restore point of its own, until that failback is committed.

It is made after the VM serves, of a container that lets no files in until then (`KEEPING_KEY`). It is nothing that the
primary has sent, so it neither counts among the restore points of the plan nor goes with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.lxd import LxdServer, TryAgainError
from vcrecovery.errors import ExternalError, RefusedError
from vcrecovery.plan.model import Plan
from vcrecovery.standby.restore_points import (
    RestorePoint,
    States,
    named,
    remove_unfinished,
    restore_points,
    take,
    unmake,
)
from vcrecovery.store.lock import KEEPER_PATIENCE, PATIENCE, one_keeper, service_lock


def kept_points(lxd: LxdServer, service: str) -> list[RestorePoint]:
    """Oldest first."""
    return [point for point in restore_points(lxd, service) if point.kept]


def keep_as_of(
    plan: Plan, service: str, lxd: LxdServer, clock: Clock, stopped_at: float, spoilt: Callable[[], str]
) -> tuple[RestorePoint | None, str]:
    """Keeps the standby as it stopped then, unless that is `spoilt`; what was kept, now or before, or why nothing.

    Raises BusyError when another keeper does not come to an end, and ExternalError when LXD is away, or busy with it.
    """
    point = named(stopped_at, kept=True)
    with one_keeper(plan.state_dir, service, KEEPER_PATIENCE, clock):
        if point in kept_points(lxd, service):
            return point, ""
        if why := spoilt():
            with suppress(ExternalError):
                remove_unfinished(lxd, service)
            return None, why
        remove_unfinished(lxd, service)
        try:
            why = take(lxd, service, point.name, spoilt)
        except TryAgainError:
            raise
        except ExternalError as error:
            # Also where it is made, and only the answer was lost: what nobody has noted, nobody would remove.
            if point in kept_points(lxd, service):
                return point, ""
            # That the service is protected is worth more than that way back. If LXD is away, this raises too.
            remove_unfinished(lxd, service)
            why = error.message
    return (None, why) if why else (point, "")


def commit(
    plan: Plan,
    service: str,
    lxd: LxdServer,
    journal: States,
    clock: Clock,
    names: Sequence[str] | None = None,
    patience: float = 0.0,
) -> list[str]:
    """Removes what is kept, or those of it that have these `names`; the names of what was removed.

    Raises RefusedError while an operation is open that may need it, BusyError while somebody is at work on the service
    or keeps its standby, and ExternalError when LXD cannot do it.
    """
    with one_keeper(plan.state_dir, service, patience, clock):
        # Not while a rollback may rest on it; the removal itself, which takes long on some pools, holds up no failover.
        with service_lock(plan.state_dir, service, brief=True, patience=min(patience, PATIENCE), clock=clock):
            found = [p.name for p in kept_points(lxd, service) if names is None or p.name in names]
            episode = journal.state(service).open_episode
            if found and episode is not None and episode.has_acted:
                raise RefusedError(*episode.goes_on_first)
            for name in found:
                unmake(lxd, service, name)
        remove_unfinished(lxd, service)
    return found
