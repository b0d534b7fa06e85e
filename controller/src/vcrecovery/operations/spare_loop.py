"""Spares while the watcher runs: each standby that serves is copied to its spare, and nobody else serves beside it.

A standby that waits is in one place, too: a move of it that was cut off goes on, and what is elsewhere is put aside.
"""

from __future__ import annotations

import logging
from contextlib import suppress

from vcrecovery.core.episode import Episode, Outcome
from vcrecovery.core.service_state import ServiceState, Side
from vcrecovery.core.text import took
from vcrecovery.drivers.lxd.instances import STOPPED, Instance
from vcrecovery.drivers.runtime import Event
from vcrecovery.errors import ExternalError
from vcrecovery.keeping import SayOnce, keep
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.failover import ALONE, ProgressReporter
from vcrecovery.operations.locked import fail_over_locked
from vcrecovery.plan.model import Plan, Spare
from vcrecovery.plan.places import place, put
from vcrecovery.standby.container import ACTIVE, EPOCH_KEY, ROLE_KEY, SPARE, STANDBY, boots_with_its_machine, epoch_of
from vcrecovery.standby.copies import copied, copy, is_whole, of_no_later_epoch, put_aside
from vcrecovery.store.lock import is_being_moved, one_keeper, one_mover, service_lock

log = logging.getLogger("vcrecovery.watch")

#: Seconds between two looks whether one is due.
LOOK_EVERY = 10.0
#: Seconds for a refresh.
COPIED_WITHIN = 6 * 3600.0


def keep_copying(env: Environment, stop: Event, reporter: ProgressReporter) -> None:
    """Returns when `stop` is set. One copy at a time: what it takes of the two machines, services there lack."""
    may_be_lent = env.plan.balance.elastic is not None
    begun = _waiting_moves(env)
    names = [n for n, one in env.plan.services.items() if may_be_lent or one.standby.spare is not None or n in begun]
    keep(
        names,
        lambda name: see_to_its_places(env, name, reporter),
        every=LOOK_EVERY,
        stop=stop,
        say=SayOnce(log),
        trouble="its copy is not refreshed",
    )


def _waiting_moves(env: Environment) -> set[str]:
    """Services with one that is open; the place where it goes may have left the plan."""
    with suppress(ExternalError):
        return {episode.service for episode in env.journal.open_episodes() if episode.request.leaves is not None}
    return set()


def see_to_its_places(env: Environment, name: str, reporter: ProgressReporter) -> None:
    """Raises ExternalError, RefusedError and BusyError."""
    state = env.journal.state(name)
    if state.open_episode is None:
        put(env.plan, name, state.placed_on)
    if (move := _left_behind(env, state)) is not None:
        _bring_to_an_end(env, move, reporter)
    elif state.side is Side.PRIMARY:
        _wait_in_one_place(env, state)
    else:
        see_to(env, name)


def _left_behind(env: Environment, state: ServiceState) -> Episode | None:
    """A move of a standby that waits, and which nobody goes on with."""
    episode = state.open_episode
    if episode is None or episode.request.leaves is None:
        return None
    return None if is_being_moved(env.plan.state_dir, state.service) else episode


def _bring_to_an_end(env: Environment, move: Episode, reporter: ProgressReporter) -> None:
    """One that has done nothing yet is nothing to go on with: what is copied stays for the next one."""
    name = move.service
    if not move.leaves_it_alone:
        fail_over_locked(env.apart(), name, move.cause, move.request, reporter=reporter, gate=ALONE)
        return
    with one_mover(env.plan.state_dir, name, env.clock), service_lock(env.plan.state_dir, name, clock=env.clock):
        now = env.journal.state(name).open_episode
        if now is not None and now.id == move.id and now.leaves_it_alone:
            env.journal.close(now, Outcome.GIVEN_UP, "nobody goes on with it", env.clock.now())


def _wait_in_one_place(env: Environment, state: ServiceState) -> None:
    """The other container takes no files: one that was away when the standby was moved does not know of that."""
    name, service = state.service, env.plan.services[state.service]
    if state.epoch == 0 or state.open_episode is not None or service.standby.spare is None:
        return
    here, there = env.lxd[service.standby.secondary], env.lxd[service.standby.spare.secondary]
    if not _takes_files(there.get(name)) or not _takes_files(here.get(name)):
        return
    with service_lock(env.plan.state_dir, name, brief=True, clock=env.clock):
        now = env.journal.state(name)
        if (now.side, now.epoch, now.open_episode) == (state.side, state.epoch, None):
            put_aside(there, name, state.epoch, waits_on=here.name)
            log.warning("%s: its container on %s took files, too: put aside", name, there.name)


def _takes_files(found: Instance | None) -> bool:
    return found is not None and found.config.get(ROLE_KEY) == STANDBY


def see_to(env: Environment, name: str) -> None:
    """Refreshes the copy of one that serves, if that is due. Raises ExternalError, RefusedError and BusyError."""
    if (state := _serving(env, name)) is None:
        return
    with one_keeper(env.plan.state_dir, name, clock=env.clock):
        # What was read before may be of before the work of whoever had it.
        if (state := _serving(env, name)) is None:
            return
        put(env.plan, name, state.placed_on)
        service = env.plan.services[name]
        spare = service.standby.spare
        if spare is None:
            return
        here, there = env.lxd[service.standby.secondary], env.lxd[spare.secondary]
        found = there.get(name)
        if found is not None and _ran_on(found, state):
            put_aside(there, name, state.epoch)
            log.warning(
                "%s: its container on %s ran, or took files, which has not served since: put aside",
                name,
                spare.secondary,
            )
            found = there.get(name)
        serves = here.get(name)
        if serves is None or not serves.running or not _may_be_of(env, serves, state):
            # Whoever keeps it serving sees to that first.
            return
        # A move would wait for it at its last copy, with nobody serving.
        if is_being_moved(env.plan.state_dir, name) or not _is_due(env, found, spare, state):
            return
        keys = {ROLE_KEY: ACTIVE, EPOCH_KEY: str(state.epoch), **boots_with_its_machine(env.plan, name)}
        here.set_keys(lambda: of_no_later_epoch(here, here.get(name) or serves, state.epoch), keys)
        began = env.clock.now()
        plan = _with_it_on(env.plan, name, spare.secondary)
        copy(plan, name, here, there, state.epoch, env.clock, timeout=COPIED_WITHIN, pause=spare.pause)
        log.info("%s: copied to %s in %s", name, spare.secondary, took(began, env.clock.now()))


def _serving(env: Environment, name: str) -> ServiceState | None:
    """None while it does not serve from its standby, or somebody is about to change that."""
    state = env.journal.state(name)
    return state if state.standby_serves else None


def _ran_on(found: Instance, state: ServiceState) -> bool:
    """Whether it is one of ours that serves no more, and runs, or takes files."""
    runs = found.config.get(ROLE_KEY) in (ACTIVE, SPARE) and found.status != STOPPED
    return (runs or _takes_files(found)) and epoch_of(found) < state.epoch


def _may_be_of(env: Environment, found: Instance, state: ServiceState) -> bool:
    """Whether it is the one that serves. A failover that was withdrawn spent an epoch, and may have put it aside."""
    aside_or_not = found.config.get(ROLE_KEY) in (ACTIVE, SPARE)
    return aside_or_not and env.journal.may_be_who_serves(state.service, epoch_of(found), state.epoch)


def _is_due(env: Environment, found: Instance | None, spare: Spare, state: ServiceState) -> bool:
    """Also where a clock was set back."""
    last = None if found is None or not is_whole(found) else copied(found)
    return last is None or last.epoch != state.epoch or abs(env.clock.now() - last.at) >= spare.every


def _with_it_on(plan: Plan, name: str, secondary: str) -> Plan:
    """The plan as it is for the other place; the one that all share stays as it is."""
    other = plan.model_copy(update={"services": dict(plan.services)})
    place(other, name, secondary)
    return other
