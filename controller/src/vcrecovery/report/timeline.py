"""A failover as a person reads it: a line per step."""

from __future__ import annotations

from vcrecovery.core.episode import DONE_WORD, Episode, Outcome, Step, StepRecord
from vcrecovery.core.evidence import HookRun
from vcrecovery.core.hooks import hooks_of, said
from vcrecovery.core.service_state import ServiceState
from vcrecovery.core.text import clock_time, day_and_time, plain
from vcrecovery.report.repeats import Repeats, condensed, same


def line(word: str, at: float, since: float, detail: str) -> str:
    return f"  {clock_time(at)}  {at - since:+8.3f} s  {word:<12}  {plain(detail)}".rstrip()


def of_episode(episode: Episode) -> list[str]:
    """The whole timeline."""
    planned = "" if episode.request.verb == "failover" else f"{episode.request.verb}  "
    lines = [
        f"{plain(episode.service)}  {planned}epoch {episode.epoch}  "
        f"episode {episode.id}  {day_and_time(episode.opened_at)}  "
        f"{episode.outcome.value if episode.outcome else 'not finished'}"
        + (f": {plain(episode.reason)}" if episode.reason and episode.outcome is not Outcome.DONE else "")
    ]
    lines.append(line("asked" if planned else "detected", episode.opened_at, episode.opened_at, episode.cause))
    for record in condensed(episode.steps, same):
        if isinstance(record, Repeats):
            lines.append(f"{'':25}{record}")
        elif record.ended_at is None:
            begun, what = record.begun_at, f"{record.step}: its controller ended in this step, or is in it"
            lines.append(line("interrupted", begun, episode.opened_at, what))
        else:
            lines += _ended(record, record.ended_at, episode)
    return lines


def _ended(record: StepRecord, at: float, episode: Episode) -> list[str]:
    """A try of a step, and the operator's commands beside it: before a start, after everything else."""
    word, detail = DONE_WORD[record.step], record.summary
    if not record.ok:
        word, detail = "failed", f"{record.step}: {record.error}"
    step = line(word, at, episode.opened_at, detail)
    ran = hooks_of(record)
    if record.step is Step.START:
        return [*(line("hook", record.begun_at, episode.opened_at, _of(run)) for run in ran), step]
    return [step, *(line("hook", at, episode.opened_at, _of(run)) for run in ran)]


def _of(run: HookRun) -> str:
    return said(run).removeprefix("hook ")


def cooling(episode: Episode, state: ServiceState, cool_down: float, now: float) -> list[str]:
    """What follows from the newest failover of a service that was done: for how long there is no other by itself."""
    if episode.closed_at is None or state.failed_over_at != episode.closed_at or episode.outcome is not Outcome.DONE:
        return []
    if (until := state.cools_until(cool_down)) is None:
        return [line("acknowledged", state.acknowledged_at or 0.0, episode.opened_at, "")]
    if not state.cools(cool_down, now):
        return []
    return [line("cools until", until, episode.opened_at, f"`vcrecovery acknowledge {episode.service}` ends it")]
