"""Virtual addresses while the watcher runs: one that this machine has lost, as after a restart, is taken again."""

from __future__ import annotations

import logging
import threading

from vcrecovery.core.states import Side
from vcrecovery.errors import BusyError
from vcrecovery.operations import virtual_address
from vcrecovery.operations.environment import Environment
from vcrecovery.store.lock import service_lock

log = logging.getLogger("vcrecovery.watch")

#: Seconds between two looks.
LOOK_EVERY = 10.0


def keep_addresses(env: Environment, stop: threading.Event) -> None:
    """Returns when `stop` is set, or at once where no service has a virtual address."""
    names = [name for name, service in env.plan.services.items() if service.virtual_ip is not None]
    said: dict[str, str] = {}
    while names and not stop.is_set():
        for name in names:
            try:
                taken = keep(env, name)
            except BusyError:
                continue  # whoever is at work on it moves the address too
            except Exception as error:  # noqa: BLE001  nobody would miss a thread that ends
                if said.get(name) != str(error):
                    log.error("%s: its virtual address is not here: %s", name, error)
                said[name] = str(error)
            else:
                said.pop(name, None)
                if taken:
                    log.warning("%s: its virtual address was not here any more: taken again", name)
        stop.wait(LOOK_EVERY)


def keep(env: Environment, name: str) -> bool:
    """Whether the address of a service whose standby serves had to be taken again.

    Raises BusyError while a controller is at work on the service, and ExternalError when the address cannot be taken.
    """
    service = env.plan.services[name]
    if not _ours(env, name) or virtual_address.is_here(service):
        return False
    # Under the lock, so that a `standby reset` that gives it up at this moment does not get it back.
    with service_lock(env.plan.state_dir, name, brief=True):
        return _ours(env, name) and virtual_address.keep(service, env.clock)


def _ours(env: Environment, name: str) -> bool:
    state = env.journal.state(name)
    return state.side is Side.STANDBY and state.open_episode is None
