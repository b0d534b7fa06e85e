"""Several moves, one after the other: what `drain` and `rebalance` do in the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vcrecovery.cli.interruption import interruption_of
from vcrecovery.cli.output import say
from vcrecovery.cli.recovery import refuse_missing, table_of
from vcrecovery.cli.timeline import LiveTimeline, NoTimeline
from vcrecovery.core.text import plain
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.failover import ProgressReporter
from vcrecovery.operations.rebalance import carry_out, request_of
from vcrecovery.operations.several import Result, result_of, result_of_error


@dataclass(frozen=True)
class Wanted:
    """One to do; `why` is for the journal."""

    service: str
    to: str
    why: str


def begun_moves(env: Environment) -> list[Wanted]:
    """Those that somebody has begun, and not ended."""
    return [
        Wanted(one.service, one.request.to, one.cause)
        for one in env.journal.open_episodes()
        if one.request.moves and one.request.to and one.service in env.plan.services
    ]


def move_all(env: Environment, moves: Sequence[Wanted], by: str, *, as_json: bool) -> list[Result]:
    """What came of each. One that fails does not keep the others. Raises OperationInterrupted."""
    ended: dict[str, Result] = {}
    size = max((len(move.service) for move in moves), default=0)
    try:
        for move in moves:
            reporter: ProgressReporter = NoTimeline() if as_json else LiveTimeline(f"{move.service:<{size}}  ")
            try:
                episode = carry_out(env, move.service, move.to, move.why, by, reporter)
                result = result_of(move.service, episode, request_of(move.to, by))
            except Exception as error:  # noqa: BLE001  one that breaks must not keep the others
                result = result_of_error(move.service, error)
                if not as_json:
                    say(f"{move.service:<{size}}  {plain(str(error))}")
            ended[move.service] = result
    except KeyboardInterrupt:
        raise interruption_of(env.journal, [move.service for move in moves], ended, back=False) from None
    return list(ended.values())


def tell_all(results: Sequence[Result]) -> None:
    """For people."""
    if results:
        for line in table_of(results):
            say(line)


def all_moved(what: str, results: Sequence[Result]) -> None:
    """Raises SeveralError where one was not."""
    refuse_missing(what, results, "were not moved")
