"""The operator has repaired the primary: it serves again, and its service is unharmed once more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vcrecovery.errors import OutsideError
from vcrecovery.store.holds import HoldBook, hold_lock

if TYPE_CHECKING:
    from vcrecovery.core.returning import Hold
    from vcrecovery.operations.environment import World


def serve_from_primary(world: World, service: str) -> bool:
    """Lets the primary serve again; whether it was held and has been resumed.

    Raises OutsideError when its hypervisor does not answer or will not: then nothing has changed.
    """
    book = HoldBook(world.journal)
    with hold_lock(world.plan.state_dir, service):
        holds, resumed = book.all_open(service), False
        if len(holds) > 1:
            where = " and ".join(sorted(_host_of(world, hold) for hold in holds))
            raise OutsideError(
                f"the primary of {service} is held paused on {where}: which of them is to serve?",
                f"`virsh destroy {holds[0].uuid}` on the other one, then call again",
            )
        for hold in holds:
            resumed = world.hosts[_host_of(world, hold)].resume(hold.uuid)
            book.release(hold.id, world.clock.now(), "the primary serves again")
        # If we died before this, the watcher would hold it again, and the operator would call again.
        world.journal.serve_from_primary(service, world.clock.now())
        return resumed


def _host_of(world: World, hold: Hold) -> str:
    """A hypervisor that has left the plan since has nothing that could be resumed from here."""
    return hold.host if hold.host in world.plan.hypervisors else world.plan.services[hold.service].primary.hypervisor
