"""A failover as a person reads it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import click

from vcrecovery.cli.options import colour
from vcrecovery.recover.states import DONE_WORD, Episode, Outcome, Step

_RUNNING_WORD = {
    Step.CONFIRM: "confirming",
    Step.FENCE: "fencing the primary",
    Step.RESTORE: "restoring the standby",
    Step.START: "starting the standby",
    Step.PROBE: "waiting for its ports",
    Step.SWITCH: "switching DNS",
    Step.VERIFY: "asking the DNS servers",
}


def clock_time(at: float) -> str:
    """Local time of day, with milliseconds."""
    return datetime.fromtimestamp(at).astimezone().strftime("%H:%M:%S.%f")[:-3]


def day_and_time(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def line(word: str, at: float, since: float, detail: str) -> str:
    return f"  {clock_time(at)}  {at - since:+8.3f} s  {word:<12}  {detail}".rstrip()


def of_episode(episode: Episode) -> list[str]:
    """The whole timeline, a line per step."""
    lines = [
        f"{episode.service}  epoch {episode.epoch}  {day_and_time(episode.opened_at)}  "
        f"{episode.outcome.value if episode.outcome else 'not finished'}"
        + (f": {episode.reason}" if episode.reason and episode.outcome is not Outcome.DONE else "")
    ]
    lines.append(line("detected", episode.opened_at, episode.opened_at, episode.cause))
    for record in episode.steps:
        if record.ended_at is None:
            begun, what = record.begun_at, f"{record.step}: its controller ended in this step"
            lines.append(line("interrupted", begun, episode.opened_at, what))
        elif record.ok:
            summary = str(record.evidence.get("summary", ""))
            lines.append(line(DONE_WORD[record.step], record.ended_at, episode.opened_at, summary))
        else:
            detail = f"{record.step}: {record.evidence.get('error', '')}"
            lines.append(line("failed", record.ended_at, episode.opened_at, detail))
    return lines


class LiveTimeline:
    """Prints each step when it is done; on a terminal, also the one that is under way."""

    def __init__(self) -> None:
        self._live = sys.stdout.isatty()
        self._opened: int | None = None

    def _open(self, episode: Episode) -> None:
        if self._opened != episode.id:
            self._opened = episode.id
            for text in of_episode(episode):
                click.echo(text.removesuffix("not finished").rstrip())

    def begun(self, episode: Episode, step: Step, sentence: str) -> None:
        self._open(episode)
        if self._live:
            click.echo(f"\r\033[K  {_RUNNING_WORD[step]} ...", nl=False)

    def ended(self, episode: Episode, step: Step, at: float, evidence: Mapping[str, Any]) -> None:
        text = line(colour(f"{DONE_WORD[step]:<12}", "green"), at, episode.opened_at, str(evidence.get("summary", "")))
        click.echo(f"\r\033[K{text}" if self._live else text)
