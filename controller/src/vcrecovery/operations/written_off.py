"""What a standby has served on a secondary that is lost for good: the operator gives it up, and the VM serves.

The secondary may come back all the same, and start the container with its machine: beside the VM, two would serve. The
operator's word is in the journal, so whoever sees the container again ends it. Its files stay.
"""

from __future__ import annotations

from contextlib import suppress

from vcrecovery.core.episode import Step
from vcrecovery.core.service_state import Serving, Side
from vcrecovery.drivers.lxd import Instance
from vcrecovery.drivers.lxd.instances import STOPPED
from vcrecovery.errors import ExternalError, RefusedError
from vcrecovery.operations.environment import Environment
from vcrecovery.standby.container import ACTIVE, ROLE_KEY, STAYS_OFF, epoch_of
from vcrecovery.store.lock import service_lock
from vcrecovery.transfer.failback_orders import ORDER_KEY

#: Seconds for the container to end by itself.
ENDS_WITHIN = 10.0
#: So many episodes are read to see since when a standby has served.
_READ = 1000
#: What has LXD start it with its machine; and the order of a failback that was given up: a VM that boots before the
#: container stands by again would obey it, and take the old files for its own.
_NO_MORE = {ORDER_KEY: "", **STAYS_OFF}


def served_since(env: Environment, name: str) -> float | None:
    """When the standby was started first since the primary served; None where the journal does not have it."""
    for episode in env.journal.history(name, _READ):
        request = episode.request
        goes_on = request.again or request.back or request.to is not None
        starts = [record.begun_at for record in episode.steps if record.step is Step.START]
        if not goes_on:
            return starts[0] if starts else None
    return None


def is_written_off(serving: Serving | None) -> bool:
    """Whether its container, if it comes back, is to be ended."""
    if serving is None or serving.written_off is None:
        return False
    return serving.side is Side.PRIMARY and not serving.at_work


def was_given_up(found: Instance, up_to: int | None) -> bool:
    """Whether it holds what was. One of a later epoch is another controller's, and serves."""
    return up_to is not None and found.config.get(ROLE_KEY) == ACTIVE and epoch_of(found) <= up_to


def end_written_off(env: Environment, name: str) -> bool:
    """Whether it had come back, and serves no more now. One that is away is nothing that could be ended.

    Raises ExternalError when it does not end, and BusyError while the service is worked on.
    """
    lxd = env.lxd[env.plan.services[name].standby.secondary]
    found = None
    with suppress(ExternalError):
        found = lxd.get(name)
    if found is None or not _is_to_end(found, env.journal.who_serves().get(name)):
        return False
    with service_lock(env.plan.state_dir, name, brief=True, clock=env.clock):
        serving = env.journal.who_serves().get(name)

        def read() -> Instance:
            now = lxd.must_get(name)
            if not _is_to_end(now, serving):
                # Stopped by now, or claimed by another controller.
                raise RefusedError(f"container {name} on {lxd.name} is another one's by now")
            return now

        try:
            runs = lxd.set_keys(read, _NO_MORE).status != STOPPED
        except RefusedError:
            return False
        if runs:
            lxd.shut_down(name, ENDS_WITHIN)
    return runs


def _is_to_end(found: Instance, serving: Serving | None) -> bool:
    if serving is None or not is_written_off(serving) or not was_given_up(found, serving.written_off):
        return False
    return found.status != STOPPED or any((found.config.get(key) or "") != value for key, value in _NO_MORE.items())
