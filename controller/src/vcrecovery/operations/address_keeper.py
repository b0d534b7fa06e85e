"""Virtual addresses while the watcher runs: one that this machine has lost, as after a restart, is taken again."""

from __future__ import annotations

import logging
from functools import partial

from vcrecovery.core.service_state import Side
from vcrecovery.drivers.runtime import Event, ask
from vcrecovery.errors import ExternalError, RefusedError
from vcrecovery.keeping import SayOnce, keep
from vcrecovery.operations import virtual_address
from vcrecovery.operations.environment import Environment
from vcrecovery.plan.places import place
from vcrecovery.standby.container import has_gone_back
from vcrecovery.store.lock import service_lock

log = logging.getLogger("vcrecovery.watch")

#: Seconds between two looks.
LOOK_EVERY = 10.0
#: Seconds for LXD to say what a standby is, before its address is taken all the same.
SAYS_WITHIN = 2.0


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

    Raises BusyError while a controller is at work on the service, ExternalError when the address cannot be taken, and
    RefusedError where the journal is behind: the address is the VM's.
    """
    service = env.plan.services[name]
    if not _ours(env, name) or virtual_address.is_here(env, service):
        return False
    stands_by = _stands_by(env, name)
    # Under the lock, so that a `standby reset` that gives it up at this moment does not get it back.
    with service_lock(env.plan.state_dir, name, brief=True, clock=env.clock):
        if not _ours(env, name):
            return False
        if stands_by:
            raise RefusedError(
                f"by the journal the standby of {name} serves since epoch {env.journal.state(name).epoch}, and its "
                "container stands by: another controller has gone back to its VM, or this journal is an older one",
                f"`vcrecovery standby reset {name}` has this one know",
            )
        return virtual_address.keep(env, service)


def _ours(env: Environment, name: str) -> bool:
    """Not where its standby is on a secondary for which the plan has no place: it would lead elsewhere."""
    state = env.journal.state(name)
    if state.side is not Side.STANDBY or not place(env.plan, name, state.placed_on):
        return False
    return state.open_episode is None or not state.open_episode.has_acted


def _stands_by(env: Environment, name: str) -> bool:
    """By its own word, whatever the journal says. An LXD that does not say so at once keeps it from no client."""
    epoch, lxd = env.journal.state(name).epoch, env.lxd[env.plan.services[name].standby.secondary]
    try:
        found = ask(env.runtime, partial(lxd.get, name), f"standby of {name}").result(SAYS_WITHIN)
    except (ExternalError, TimeoutError):
        return False
    return has_gone_back(found, epoch)
