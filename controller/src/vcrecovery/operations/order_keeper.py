"""Orders for VMs while the watcher runs: one whose failback was cut off while it fetched waits for its turn again.

Nobody is left then to take the order back, such as when the operator's connection broke, and the VM would read the
standby, which serves, pass after pass. The failback stays open, and is continued by the same words.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial

from vcrecovery.core.episode import Episode, Step
from vcrecovery.drivers.runtime import Event
from vcrecovery.errors import VCRecoveryError
from vcrecovery.keeping import take_turns
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.vm_orders import Order
from vcrecovery.plan.places import place
from vcrecovery.store.lock import service_lock

log = logging.getLogger("vcrecovery.watch")

LOOK_EVERY = 30.0


def keep_orders(env: Environment, stop: Event) -> None:
    """Returns when `stop` is set. `env` is its own."""
    trouble = "orders of failbacks that were cut off are not looked at: {}"
    take_turns(
        partial(rest_those_left, env),
        every=LOOK_EVERY,
        stop=stop,
        log=log,
        about="orders of failbacks",
        trouble=trouble,
    )


def rest_those_left(env: Environment) -> None:
    """Raises ExternalError when the journal cannot be used."""
    for episode in env.journal.open_episodes():
        # Somebody is at work on it, or LXD is away: another look comes.
        with suppress(VCRecoveryError):
            if _was_fetching(episode) and episode.service in env.plan.services and rest_one(env, episode.service):
                log.warning(
                    "%s: its failback was cut off while its VM fetched: the VM waits; `vcrecovery failback %s` goes on",
                    episode.service,
                    episode.service,
                    extra={"service": episode.service},
                )


def rest_one(env: Environment, name: str) -> bool:
    """Whether its VM was still told to fetch. Raises BusyError while a controller is at work on it."""
    with service_lock(env.plan.state_dir, name, brief=True, clock=env.clock):
        state = env.journal.state(name)
        episode = state.open_episode
        if episode is None or not _was_fetching(episode) or not place(env.plan, name, state.placed_on):
            return False
        given = env.vm_orders.given(name)
        if given is None or (given.epoch, given.order) != (episode.epoch, Order.COPY):
            return False
        env.vm_orders.give(name, episode.epoch, Order.HOLD)
        return True


def _was_fetching(episode: Episode) -> bool:
    """Before its standby has stopped: after that the watcher goes on with the failback."""
    return episode.request.back and not episode.has_acted and episode.tried(Step.COPY)
