"""Back from a failback: to which restore point, and what is lost. The way there is a failover that is forced."""

from __future__ import annotations

from dataclasses import dataclass

from vcrecovery.core.episode import Episode, Step
from vcrecovery.core.failback import keeper_of, kept_by
from vcrecovery.core.service_state import ServiceState, Side
from vcrecovery.errors import RefusedError
from vcrecovery.operations.environment import Environment
from vcrecovery.standby.container import secondary_of
from vcrecovery.standby.kept_points import kept_points
from vcrecovery.transfer.changed_files import Changed, changed_since


@dataclass(frozen=True)
class Loss:
    """What a rollback to `restore_point` loses. `serves_since`: the VM; `failed_over_at`: a failover that came after.

    `changed`: what has changed in the standby since the VM serves; None where that is on another machine.
    """

    restore_point: str
    now: float
    serves_since: float | None
    failed_over_at: float | None
    changed: Changed | None


def loss_of(env: Environment, service: str) -> Loss | None:
    """None where one is done already.

    Raises RefusedError where none is possible, with the reason; ExternalError when nobody can say.
    """
    state, failbacks = env.journal.state(service), env.journal.failbacks(service)
    newest = env.journal.newest_done(service)
    entry = env.plan.services[service]
    lxd = env.lxd[entry.standby.secondary]
    points = kept_points(lxd, service)
    serves = state.side is Side.STANDBY and state.open_episode is None
    if serves and newest is not None and newest.request.restore_point in [point.name for point in points]:
        return None
    _refuse_without_a_vm_that_serves(state)
    if not points:
        raise RefusedError(f"no rollback of {service} is possible: {_why_nothing(failbacks)}")
    # One that was begun stays with its own.
    begun = state.open_episode.request.restore_point if state.open_episode is not None else None
    point = next((point for point in points if point.name == begun), points[-1])
    failback = keeper_of(point.name, failbacks)
    handed = failback.done(Step.HAND_OVER) if failback is not None else None
    since = handed.ended_at if handed is not None else None
    later = newest is not None and failback is not None and newest.id > failback.id
    moment = point.taken_at if since is None else since
    changed = None
    if lxd.is_here:
        changed = changed_since(lxd.rootfs(secondary_of(env.plan, entry).storage_pool, service), moment)
    return Loss(point.name, env.clock.now(), since, newest.opened_at if later and newest is not None else None, changed)


def _refuse_without_a_vm_that_serves(state: ServiceState) -> None:
    service, episode = state.service, state.open_episode
    if episode is not None and episode.request.back:
        if episode.done(Step.HAND_OVER) is None:
            raise RefusedError(
                f"a failback of {service} is under way, and its VM does not serve yet",
                f"`vcrecovery failback {service}` brings it to its end, or back",
            )
        if episode.done(Step.KEEP) is None:
            raise RefusedError(
                f"a failback of {service} is under way, and has not kept yet what its standby was",
                f"`vcrecovery failback {service}` goes on; `vcrecovery failover {service} --force` starts the standby",
            )
    elif state.side is Side.STANDBY and not _rolls_back(episode):
        raise RefusedError(
            f"{service} is served by its standby since epoch {state.epoch}: a rollback leads there from its VM",
            f"`vcrecovery standby snapshots {service}` lists what is kept",
        )


def _rolls_back(episode: Episode | None) -> bool:
    return episode is not None and episode.has_acted and episode.request.restore_point is not None


def _why_nothing(failbacks: list[Episode]) -> str:
    if not failbacks:
        return "no failback was ever made"
    kept = next((kept for failback in failbacks if (kept := kept_by(failback))), None)
    if kept is None:
        return "no failback has come to its end"
    if kept.restore_point:
        return f"its failback is committed ({kept.restore_point} was removed)"
    return f"its failback has kept nothing: {kept.problem}"
