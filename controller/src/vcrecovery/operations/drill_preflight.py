"""Whether services can be rehearsed now: every reason against it at once, before anything is made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vcrecovery.core.drill import clone_name, room_problem
from vcrecovery.core.service_state import Side
from vcrecovery.core.sighting import ran_for
from vcrecovery.core.text import span
from vcrecovery.drivers.lxd import Instance, LxdServer
from vcrecovery.drivers.lxd.instances import FROZEN, RUNNING, STOPPED
from vcrecovery.errors import ExternalError
from vcrecovery.operations.drill_clones import is_ours
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.room import copied_bytes
from vcrecovery.plan.on_demand import is_on_demand
from vcrecovery.standby.container import READY_KEY, ROLE_KEY, STANDBY, secondary_of
from vcrecovery.transfer.freshness import from_the_future, read_freshness


def objections(env: Environment, names: Sequence[str]) -> list[str]:
    """Why they cannot be rehearsed together now, a sentence each; none when they can."""
    found = [f"{name}: {why}" for name in names for why in _of_service(env, name)]
    # What cannot be looked at is not measured.
    return found or _of_pools(env, names)


def _of_service(env: Environment, name: str) -> Iterator[str]:
    service, state = env.plan.services[name], env.journal.state(name)
    lxd = env.lxd[service.standby.secondary]
    if is_on_demand(secondary_of(env.plan, service)):
        yield f"its secondary {lxd.name} is on demand, where no drill is possible; a switchover shows as much"
        return
    if not lxd.is_here:
        yield f"its secondary {lxd.name} is another machine; call `vcrecovery drill` there"
        return
    if (episode := state.open_episode) is not None:
        yield f"its failover (epoch {episode.epoch}) is not finished"
    if clone_name(name) in env.plan.services:
        yield f"its clone would be called {clone_name(name)}, as another service is; rename that"
    try:
        instance = lxd.get(name)
        if (clone := lxd.get(clone_name(name))) is not None and not is_ours(env.plan, clone):
            yield f"secondary {lxd.name} has a container {clone.name} that is no drill's of this controller; rename it"
        if instance is None:
            yield f"secondary {lxd.name} has no container {name}; run the role `secondary`"
        elif state.side is Side.STANDBY or instance.config.get(ROLE_KEY) != STANDBY:
            yield "its standby serves, so none waits that could be rehearsed"
        else:
            yield from _of_standby(env, name, lxd, instance)
    except ExternalError as error:
        yield str(error)


def _of_standby(env: Environment, name: str, lxd: LxdServer, instance: Instance) -> Iterator[str]:
    service, now = env.plan.services[name], env.clock.now()
    if instance.config.get(READY_KEY) != "true":
        yield "its standby was never made ready; run the role `secondary`"
        return
    if instance.status not in (STOPPED, RUNNING, FROZEN):
        yield f"its container is {instance.status.lower()}"
    fresh = read_freshness(lxd, name, secondary_of(env.plan, service))
    if why := from_the_future(fresh, now):
        yield why
    elif fresh.synced_through is None or not fresh.whole:
        yield f"its standby is not complete: {fresh.detail}"
    elif (age := ran_for(fresh.synced_through, now, env.journal.off_times(name))) > service.max_staleness:
        yield f"its standby is {span(age)} old, more than its max_staleness of {span(service.max_staleness)}"


def _of_pools(env: Environment, names: Sequence[str]) -> list[str]:
    """Those that have no room for the copies."""
    needed: dict[tuple[str, str], int] = {}
    found = []
    for name in names:
        service = env.plan.services[name]
        lxd, pool = env.lxd[service.standby.secondary], secondary_of(env.plan, service).storage_pool
        try:
            size = copied_bytes(lxd, pool, name)
        except ExternalError as error:
            found.append(f"{name}: {error}")
        else:
            needed[lxd.name, pool] = needed.get((lxd.name, pool), 0) + size
    for (secondary, pool), size in needed.items():
        try:
            if problem := room_problem("the drill", pool, size, env.lxd[secondary].pool_free(pool)):
                found.append(problem)
        except ExternalError as error:
            found.append(str(error))
    return found
