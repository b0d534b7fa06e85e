"""Ctrl-C in an operation: how far each service is when the program ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vcrecovery.core.episode import Episode, Outcome
from vcrecovery.core.phase import phase_of
from vcrecovery.errors import ExitCode, ExternalError, OperationInterrupted
from vcrecovery.operations.several import Result
from vcrecovery.store.journal import Journal


def interruption_of(
    journal: Journal, services: Sequence[str], ended: Mapping[str, Result], *, back: bool
) -> OperationInterrupted:
    """`ended`: what came of those that are over."""
    size = max(len(name) for name in services)
    open_now = {name: _open_episode(journal, name) for name in services}
    lines = [f"  {name:<{size}}  {_of_one(open_now[name], ended.get(name), back=back)}" for name in services]
    over = [name for name, result in ended.items() if result.exit_code is ExitCode.DONE and open_now[name] is None]
    return OperationInterrupted(lines, is_left=len(over) < len(services))


def _open_episode(journal: Journal, service: str) -> Episode | ExternalError | None:
    try:
        return journal.state(service).open_episode
    except ExternalError as error:
        return error


def _of_one(episode: Episode | ExternalError | None, result: Result | None, *, back: bool) -> str:
    match episode:
        case ExternalError():
            return f"unknown: {episode.message}"
        case Episode():
            return _of_open(episode)
    if result is None:
        return "not begun"
    if back and result.result == Outcome.DONE:
        return f"{result.result}; whether its standby has everything is not known yet: `vcrecovery status` shows it"
    return result.result


def _of_open(episode: Episode) -> str:
    where = f"{episode.request.verb} at epoch {episode.epoch}: {phase_of(episode)}"
    if episode.has_acted:
        return f"{where}; to be finished"
    whose = "standby" if episode.request.ends_the_standby else "primary"
    return f"{where}; nothing was done to its {whose} yet"
