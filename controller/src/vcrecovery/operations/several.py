"""Several services failed over by one call, at the same time: what came of each, and of all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from vcrecovery.core.episode import Episode, Outcome, Request
from vcrecovery.drivers.runtime import THREADS, Runtime, each
from vcrecovery.errors import (
    BusyError,
    ExitCode,
    NotStartedError,
    RefusedError,
    TakenBackError,
    VCRecoveryError,
    bug_in_words,
)
from vcrecovery.operations.start_gate import StartGate, trouble_of


@dataclass(frozen=True)
class Result:
    """What came of one service. `seconds`: from its detection to its end; None when nothing was done.

    `reason` and `hint` are for a person, one line together.
    """

    service: str
    result: str
    reason: str = ""
    hint: str = ""
    exit_code: ExitCode = ExitCode.DONE
    epoch: int | None = None
    seconds: float | None = None


#: The best first. What a person has to look at outweighs what the same call may do the next time.
_FROM_GOOD_TO_BAD = (
    ExitCode.DONE,
    ExitCode.BUSY,
    ExitCode.REFUSED,
    ExitCode.EXTERNAL,
    ExitCode.USAGE,
    ExitCode.INTERNAL,
)


def worst(codes: Iterable[ExitCode]) -> ExitCode:
    return max(codes, key=_FROM_GOOD_TO_BAD.index, default=ExitCode.DONE)


def result_of(service: str, episode: Episode | None, request: Request) -> Result:
    """`episode`: the one that was closed; None when there was nothing to do."""
    if episode is None:
        return Result(service, "nothing to do", f"its {'primary' if request.back else 'standby'} serves already")
    seconds = None if episode.closed_at is None else episode.closed_at - episode.opened_at
    return Result(service, str(episode.outcome), episode.reason, epoch=episode.epoch, seconds=seconds)


def result_of_error(service: str, error: Exception) -> Result:
    if not isinstance(error, VCRecoveryError):
        return Result(service, "internal error", bug_in_words(error), exit_code=ExitCode.INTERNAL)
    words = {
        NotStartedError: "not started",
        RefusedError: "refused",
        BusyError: "busy",
        TakenBackError: Outcome.TAKEN_BACK.value,
    }
    word = words.get(type(error), "failed")
    reason = error.reason if isinstance(error, NotStartedError) else error.message
    return Result(service, word, reason, error.hint, error.exit_code)


def fail_over_all(
    services: Sequence[str],
    attempt: Callable[[str], Episode | None],
    start_gate: StartGate,
    tell: Callable[[Result], None],
    request: Request,
    runtime: Runtime = THREADS,
) -> list[Result]:
    """All at the same time, in the order that `start_gate` wants; what came of each, in the order of `services`.

    `attempt` does one as `request` says, and raises as `fail_over` does; None: there was nothing to do. `tell` gets
    each result as it comes.
    """
    found: dict[str, Result] = {}

    def work(name: str) -> None:
        trouble = ""
        try:
            result = result_of(name, attempt(name), request)
        except Exception as error:  # noqa: BLE001  one that breaks must not take the others along
            result = result_of_error(name, error)
            if not isinstance(error, BusyError):  # who may come up all the same
                trouble = trouble_of(error) if isinstance(error, VCRecoveryError) else result.reason
        found[name] = result
        start_gate.end(name, trouble)
        tell(result)

    start_gate.begin(services)
    each(runtime, work, services, "failover")
    return [found[name] for name in services]


def as_data(results: Sequence[Result]) -> list[dict[str, object]]:
    """For machines."""
    return [
        {
            "service": entry.service,
            "result": entry.result,
            "reason": entry.reason,
            "hint": entry.hint,
            "epoch": entry.epoch,
            "seconds": entry.seconds,
            "exit_code": int(entry.exit_code),
        }
        for entry in results
    ]
