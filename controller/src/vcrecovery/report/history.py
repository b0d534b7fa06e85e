"""`vcrecovery history`: which episodes, and as data. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from vcrecovery.core.drill import Drill
from vcrecovery.core.episode import Episode
from vcrecovery.core.health import Outage
from vcrecovery.core.text import day_and_time, plain, span
from vcrecovery.errors import UsageError
from vcrecovery.plan.fields import parse_duration
from vcrecovery.report import drills as of_drills
from vcrecovery.store.evidence_json import evidence_data


def moment(said: str, now: float) -> float:
    """The time that `2h` (so long ago), `2026-11-21` or `2026-11-21 03:00` means; local where no zone is said.

    Raises UsageError.
    """
    text = said.strip()
    if re.fullmatch(r"[\d.]+\s*(ms|s|m|h|d)", text):
        try:
            return now - parse_duration(text)
        except ValueError as error:
            raise UsageError(f"--since: {error}") from error
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(f"--since: {said!r} is no time; write 2h, 3d, 2026-11-21 or 2026-11-21T03:00") from error


def as_data(episode: Episode) -> dict[str, Any]:
    closed = episode.closed_at
    return {
        "episode": episode.id,
        "service": episode.service,
        "epoch": episode.epoch,
        "cause": episode.cause,
        "request": asdict(episode.request),
        "opened_at": episode.opened_at,
        "closed_at": closed,
        "seconds": None if closed is None else closed - episode.opened_at,
        "outcome": episode.outcome.value if episode.outcome else None,
        "reason": episode.reason,
        "steps": [{**asdict(record), "evidence": evidence_data(record.evidence)} for record in episode.steps],
    }


def all_as_data(episodes: Sequence[Episode], outages: Sequence[Outage], drills: Sequence[Drill]) -> dict[str, Any]:
    return {
        "episodes": [as_data(episode) for episode in episodes],
        "outages": [asdict(outage) for outage in outages],
        "drills": [of_drills.as_data(drill) for drill in drills],
    }


def in_a_line(outage: Outage, now: float) -> str:
    """An outage for a person."""
    lasted = span(outage.seconds(now))
    end = f"until {day_and_time(outage.ended_at)}, {lasted}" if outage.ended_at is not None else f"{lasted} so far"
    times = f", {outage.times} times" if outage.times > 1 else ""
    return plain(f"{outage.service}: down from {day_and_time(outage.began_at)} {end}{times}: {outage.why}")


def began_at(entry: Episode | Outage | Drill) -> float:
    """What all are sorted by."""
    return entry.opened_at if isinstance(entry, Episode) else entry.began_at
