"""The operator has repaired the primary: it serves again, and its service is unharmed once more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vcrecovery.errors import ExternalError
from vcrecovery.store.quarantines import QuarantineBook, quarantine_lock

if TYPE_CHECKING:
    from vcrecovery.core.returning import Quarantine
    from vcrecovery.operations.environment import Environment


def serve_from_primary(env: Environment, service: str, *, writes_off: bool = False) -> bool:
    """Lets the primary serve again; whether it was held and has been resumed. `writes_off`: see the journal's.

    Raises ExternalError when its hypervisor does not answer or will not: then nothing has changed.
    """
    book = QuarantineBook(env.journal)
    with quarantine_lock(env.plan.state_dir, service, clock=env.clock):
        quarantines, resumed = book.all_open(service), False
        if len(quarantines) > 1:
            where = " and ".join(sorted(_host_of(env, quarantine) for quarantine in quarantines))
            raise ExternalError(
                f"the primary of {service} is quarantined (paused) on {where}: which of them is to serve?",
                f"`virsh destroy {quarantines[0].uuid}` on the other one, then run it again",
            )
        for quarantine in quarantines:
            resumed = env.hosts[_host_of(env, quarantine)].resume(quarantine.uuid)
            book.release(quarantine.id, env.clock.now(), "the primary serves again")
        # If we died before this, the watcher would hold it again, and the operator would call again.
        env.journal.serve_from_primary(service, env.clock.now(), writes_off=writes_off)
        return resumed


def _host_of(env: Environment, quarantine: Quarantine) -> str:
    """A hypervisor that has left the plan since has nothing that could be resumed from here."""
    return (
        quarantine.host
        if quarantine.host in env.plan.hypervisors
        else env.plan.services[quarantine.service].primary.hypervisor
    )
