"""Drills as a person reads them, and as data. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vcrecovery.core.drill import Drill, DrillOutcome, StepDone
from vcrecovery.core.text import clock_time, day_and_time, plain, took

_WORD_WIDTH = 14


def step_line(done: StepDone, since: float, paint: Callable[[str], str] = str) -> str:
    word = paint(f"{done.step.value:<{_WORD_WIDTH}}")
    taken = f"in {done.seconds:.2f} s"
    return f"  {clock_time(done.at)}  {done.at - since:+8.3f} s  {word}  {taken:<10}  {plain(done.detail)}".rstrip()


def step_lines(drill: Drill) -> list[str]:
    return [step_line(done, drill.began_at) for done in drill.steps]


def result_line(drill: Drill) -> str:
    """What came of one service."""
    if drill.outcome is None:
        return plain(f"{drill.service}: drill of {day_and_time(drill.began_at)} not finished")
    if drill.outcome is not DrillOutcome.PASSED:
        return plain(f"{drill.service}: drill {drill.outcome}: {drill.reason}")
    whole = took(drill.began_at, drill.ended_at or drill.began_at)
    recovery = f"up {drill.recovery:.1f} s after its start; " if drill.recovery is not None else ""
    return plain(f"{drill.service}: drill passed: {recovery}all of it took {whole}")


def in_a_line(drill: Drill) -> str:
    """For `history`."""
    return plain(f"{result_line(drill)} (at {day_and_time(drill.began_at)}, for {drill.asked_by})")


def as_data(drill: Drill) -> dict[str, Any]:
    return {
        "drill": drill.id,
        "service": drill.service,
        "began_at": drill.began_at,
        "ended_at": drill.ended_at,
        "seconds": None if drill.ended_at is None else drill.ended_at - drill.began_at,
        "asked_by": drill.asked_by,
        "outcome": drill.outcome.value if drill.outcome else None,
        "reason": drill.reason,
        "recovery_seconds": drill.recovery,
        "steps": [
            {"step": done.step.value, "at": done.at, "seconds": done.seconds, "detail": done.detail}
            for done in drill.steps
        ],
    }
