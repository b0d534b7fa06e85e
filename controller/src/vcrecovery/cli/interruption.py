"""Ctrl-C in an operation: how far each service is when the program ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vcrecovery.core.episode import Episode
from vcrecovery.core.phase import phase_of
from vcrecovery.errors import ExternalError
from vcrecovery.operations.several import Result
from vcrecovery.store.journal import Journal


def how_far(journal: Journal, services: Sequence[str], ended: Mapping[str, Result]) -> list[str]:
    """A line for each of the services. `ended`: what came of those that are over."""
    size = max(len(name) for name in services)
    return [f"  {name:<{size}}  {_of_one(journal, name, ended.get(name))}" for name in services]


def _of_one(journal: Journal, service: str, result: Result | None) -> str:
    try:
        episode = journal.state(service).open_episode
    except ExternalError as error:
        return f"unknown: {error.message}"
    if episode is not None:
        return _of_open(episode)
    return "not begun" if result is None else result.result


def _of_open(episode: Episode) -> str:
    where = f"{episode.request.verb} at epoch {episode.epoch}: {phase_of(episode)}"
    if episode.has_acted:
        return f"{where}; to be finished"
    return f"{where}; its {'standby' if episode.request.back else 'primary'} is untouched"
