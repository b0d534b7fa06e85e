"""What Zabbix is told of an event: the timeline of a failover, or why there was none. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vcrecovery.core.episode import DONE_WORD, Episode, Outcome
from vcrecovery.core.text import took

#: The most characters of an acknowledgement in Zabbix 6.0 and 7.0.
AT_MOST = 2048


@dataclass(frozen=True)
class Finding:
    """What an event meant for one service: a failover, or the sentence why not.

    `will_change`: while the problem is open, it may mean something else later. `was_none`: nothing has failed, as far
    as anybody could see.
    """

    service: str
    sentence: str
    episode: Episode | None = None
    will_change: bool = False
    was_none: bool = False


@dataclass(frozen=True)
class Answer:
    """`final`: no repetition of the event is looked at any more. `handled`: it is done with, or was no failure."""

    text: str
    final: bool
    handled: bool = False


def answer_of(what: str, findings: Sequence[Finding]) -> Answer:
    """One answer for all services that an event concerns; with a whole timeline when it is only one."""
    final = not any(f.will_change or _came_to_nothing(f) for f in findings)
    # What may mean something else later would stay acknowledged then.
    handled = final and all(_is_done(f) or _was_none(f) for f in findings)
    if len(findings) == 1:
        return Answer(_in_full(findings[0]), final, handled)
    done = sum(1 for f in findings if f.episode is not None and f.episode.outcome is Outcome.DONE)
    head = f"{what}: {done} of {len(findings)} services are served by their standbys"
    lines = [_in_a_line(finding) for finding in findings]
    next_step = "" if handled else "next: `vcrecovery status` says what to type for each"
    return Answer("\n".join(filter(None, [head, *lines, next_step])), final, handled)


def _is_done(finding: Finding) -> bool:
    return finding.episode is not None and finding.episode.outcome is Outcome.DONE


def _was_none(finding: Finding) -> bool:
    """Whether there was no failure, as far as anybody could see."""
    return finding.was_none or _came_to_nothing(finding)


def _came_to_nothing(finding: Finding) -> bool:
    return finding.episode is not None and finding.episode.outcome in (Outcome.FALSE_ALARM, Outcome.WITHDRAWN)


def _in_full(finding: Finding) -> str:
    if (episode := finding.episode) is not None and _came_to_nothing(finding):
        # It comes again while the problem lasts: with its times it would be told each time.
        return _in_a_line(finding)
    if episode is None:
        return finding.sentence if _was_none(finding) else f"{finding.sentence}\n{_next(finding)}"
    lines = [_in_a_line(finding), _next(finding), f"cause: {episode.cause}"]
    for record in episode.steps:
        if record.ok and record.ended_at is not None:
            summary = record.summary
            lines.append(f"{record.ended_at - episode.opened_at:+.3f} s {DONE_WORD[record.step]}: {summary}")
    return "\n".join(lines)


def _next(finding: Finding) -> str:
    """What to type."""
    if _is_done(finding):
        return f"next: repair its VM, then `vcrecovery failback {finding.service}`"
    return f"next: `vcrecovery explain {finding.service}`"


def _in_a_line(finding: Finding) -> str:
    if (episode := finding.episode) is None:
        named = finding.sentence.startswith(f"{finding.service}:")
        return finding.sentence if named else f"{finding.service}: {finding.sentence}"
    after = "" if episode.closed_at is None else f" after {took(episode.opened_at, episode.closed_at)}"
    if episode.outcome is Outcome.DONE:
        return f"{finding.service}: served by its standby{after}, epoch {episode.epoch}"
    return f"{finding.service}: {episode.outcome or 'not finished'}: {episode.reason}"


def shortened(text: str) -> str:
    """As much of whole lines as Zabbix takes."""
    if len(text) <= AT_MOST:
        return text
    kept = text[: AT_MOST - 40].rsplit("\n", 1)[0]
    left_out = len(text.splitlines()) - len(kept.splitlines())
    return f"{kept}\n... and {max(1, left_out)} more lines"
