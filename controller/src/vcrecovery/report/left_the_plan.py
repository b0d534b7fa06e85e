"""Services that have left the plan, or have another name in it now, while their standbys serve or were to."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial

from vcrecovery.core.notice import Topic
from vcrecovery.core.service_state import Serving, Side
from vcrecovery.drivers.lxd import Instance
from vcrecovery.drivers.runtime import ask
from vcrecovery.errors import ExternalError
from vcrecovery.operations.environment import Environment
from vcrecovery.report.findings import Finding, Level

#: Seconds for LXD to say whether a container is still there; a service whose container was deleted is done with.
ANSWERS_WITHIN = 3.0


def of_those_that_left(env: Environment) -> list[Finding]:
    """Nobody looks after them, and nothing else of `status` names them. Raises ExternalError."""
    begun = {one.service: one for one in env.journal.open_episodes() if one.has_acted}
    left = {
        name: serving
        for name, serving in env.journal.who_serves().items()
        if name not in env.plan.services and (serving.side is Side.STANDBY or name in begun)
    }
    # All are asked before any is waited for: a secondary that is away keeps nobody waiting once for each of them.
    asked = {name: _asked(env, name, serving) for name, serving in left.items()}
    until = env.clock.steady() + ANSWERS_WITHIN
    found = []
    for name, serving in left.items():
        there = [place for place, question in asked[name].items() if _is_there(env, question, until)]
        if not there:
            continue
        on = f" on {there[0]}" if len(there) == 1 else ""
        said, typed = f"its standby{on} serves, at epoch {serving.epoch}", f"failback {name}"
        if (episode := begun.get(name)) is not None:
            said = f"its {episode.request.verb} of epoch {episode.epoch} is not finished"
            typed = episode.request.typed(name)
        client = env.lxd[there[0]].client
        found.append(
            Finding(
                Level.ATTENTION,
                name,
                f"it is not in the plan any more, and {said}: nothing is done to it, also when it fails",
                f"put it back into the plan under this name, then `vcrecovery {typed}`; if it is not wanted any "
                f"more: `{client} delete -f {name}` on {' and '.join(there)}",
                Topic.UNPROTECTED,
            )
        )
    return found


def _asked(env: Environment, name: str, serving: Serving) -> dict[str, Future[Instance | None]]:
    """Of the secondaries of the plan on which its container may be: what each has of that name."""
    on = serving.standby_on
    places: Sequence[str] = list(env.plan.secondaries) if on is None else [on] if on in env.plan.secondaries else []
    return {place: ask(env.runtime, partial(env.lxd[place].get, name), f"{name} on {place}") for place in places}


def _is_there(env: Environment, question: Future[Instance | None], until: float) -> bool:
    """Also where the secondary does not say."""
    try:
        return question.result(max(0.0, until - env.clock.steady())) is not None
    except (ExternalError, TimeoutError):
        return True
