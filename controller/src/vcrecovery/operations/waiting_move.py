"""What comes before the move of a standby that waits: whatever else is asked for its service ends it, well."""

from __future__ import annotations

from vcrecovery.core.episode import Episode, Outcome, Request, Step
from vcrecovery.core.evidence import Failed
from vcrecovery.core.phase import allowed
from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.errors import ExternalError, RefusedError
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.failover_steps import FailoverSteps
from vcrecovery.operations.places import on_its_way
from vcrecovery.plan.places import places_of, put
from vcrecovery.standby.container import ROLE_KEY, STANDBY

_FIRST = "something else comes first"


def end_waiting_move(env: Environment, name: str, request: Request) -> None:
    """Has the standby wait where it has everything; nothing where none is open, or `request` goes on with it.

    The caller holds the service. Raises ExternalError where neither of the two can stand by: LXD does not answer.
    """
    episode = env.journal.state(name).open_episode
    if episode is None or episode.request.leaves is None:
        return
    has_place = episode.request.to in places_of(env.plan.services[name])
    if request.moves and has_place and (request.to == episode.request.to or episode.tried(Step.STOP)):
        return
    if not episode.tried(Step.STOP):
        env.journal.close(episode, Outcome.GIVEN_UP, _FIRST, env.clock.now())
        return
    if not has_place and episode.done(Step.SYNC) is not None:
        # It waits there, with all that its VM has sent since.
        _is_there(env, episode)
        return
    if not has_place:
        put(env.plan, name, episode.request.leaves)
        _take_back(env, episode)
        return
    with on_its_way(env, episode.request, name):
        episode = _forward(env, episode)
        if Outcome.DONE in allowed(episode):
            _is_there(env, episode)
        else:
            _take_back(env, episode)


def _is_there(env: Environment, episode: Episode) -> None:
    said = f"the standby of {episode.service} waits on {episode.request.to}; {_FIRST}"
    env.journal.close(episode, Outcome.DONE, said, env.clock.now())


def _take_back(env: Environment, episode: Episode) -> None:
    episode = _act(env, episode, Step.TAKE_BACK)
    said = f"the standby of {episode.service} waits on {episode.request.leaves} as before: {_FIRST}"
    env.journal.close(episode, Outcome.TAKEN_BACK, said, env.clock.now())


def _forward(env: Environment, episode: Episode) -> Episode:
    """As far as it can stand by where it goes. Else it has to be taken back."""
    may = allowed(episode)
    if Step.RECEIVE in may:
        try:
            return _act(env, episode, Step.RECEIVE)
        except (ExternalError, RefusedError):
            return _read(env, episode)
    lxd = env.lxd[env.plan.services[episode.service].standby.secondary]
    if episode.done(Step.SYNC) is None and Outcome.DONE in may and not _stands_by(lxd, episode.service):
        return _act(env, episode, Step.TAKE_BACK)
    return episode


def _stands_by(lxd: LxdServer, name: str) -> bool:
    try:
        found = lxd.get(name)
    except ExternalError:
        return False
    return found is not None and found.config.get(ROLE_KEY) == STANDBY


def _act(env: Environment, episode: Episode, step: Step) -> Episode:
    """Journalled as any. Raises ExternalError and RefusedError."""
    if step is Step.TAKE_BACK and episode.done(step) is not None:
        return episode
    row = env.journal.begin(episode, step, env.clock.now(), _FIRST)
    try:
        evidence = FailoverSteps(env, episode.service).carry_out(step, episode)
    except (ExternalError, RefusedError) as error:
        env.journal.end(row, env.clock.now(), ok=False, evidence=Failed(str(error), isinstance(error, RefusedError)))
        raise
    env.journal.end(row, env.clock.now(), ok=True, evidence=evidence)
    return _read(env, episode)


def _read(env: Environment, episode: Episode) -> Episode:
    found = env.journal.episode(episode.id)
    assert found is not None  # noqa: S101  episodes are never deleted
    return found
