"""Virtual addresses while the watcher runs: one that this machine has lost, as after a restart, is taken again."""

from __future__ import annotations

import logging

from vcrecovery.core.service_state import Side
from vcrecovery.drivers.runtime import Event
from vcrecovery.keeping import SayOnce, keep
from vcrecovery.operations import virtual_address
from vcrecovery.operations.environment import Environment
from vcrecovery.plan.places import place
from vcrecovery.store.lock import service_lock

log = logging.getLogger("vcrecovery.watch")

#: Seconds between two looks.
LOOK_EVERY = 10.0


def keep_addresses(env: Environment, stop: Event) -> None:
    """Returns when `stop` is set, or at once where no service has a virtual address."""

    def look(name: str) -> None:
        if keep_one(env, name):
            log.warning("%s: its virtual address was not here any more: taken again", name)

    names = [name for name, service in env.plan.services.items() if service.virtual_ip is not None]
    keep(
        names,
        look,
        every=LOOK_EVERY,
        stop=stop,
        say=SayOnce(log),
        trouble="its virtual address is not here",
        level=logging.ERROR,
        first_after=0.0,
    )


def keep_one(env: Environment, name: str) -> bool:
    """Whether the address of a service whose standby serves had to be taken again.

    Raises BusyError while a controller is at work on the service, and ExternalError when the address cannot be taken.
    """
    service = env.plan.services[name]
    if not _ours(env, name) or virtual_address.is_here(env, service):
        return False
    # Under the lock, so that a `standby reset` that gives it up at this moment does not get it back.
    with service_lock(env.plan.state_dir, name, brief=True, clock=env.clock):
        return _ours(env, name) and virtual_address.keep(env, service)


def _ours(env: Environment, name: str) -> bool:
    """Not where its standby is on a secondary for which the plan has no place: it would lead elsewhere."""
    state = env.journal.state(name)
    if state.side is not Side.STANDBY or not place(env.plan, name, state.placed_on):
        return False
    return state.open_episode is None or not state.open_episode.has_acted
