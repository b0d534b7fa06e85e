"""`vcrecovery explain`: one failover, with what was decided, why, on what evidence, and what took its time. Pure.

For one that is not finished, the decision core itself is asked for its next step, so that what is said to come is what
the next controller does. The same holds for a refusal's way out, which the journal does not keep.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from vcrecovery.core.decide import decide
from vcrecovery.core.decisions import Close, Decision, Run
from vcrecovery.core.episode import CAME_TO_NOTHING, DONE_WORD, Episode, Outcome, Request, StepRecord
from vcrecovery.core.policy import Policy
from vcrecovery.core.text import clock_time, day_and_time, plain, span, took, wrapped
from vcrecovery.report import evidence
from vcrecovery.report.history import as_data as episode_as_data
from vcrecovery.report.repeats import Repeats, condensed, same
from vcrecovery.report.status import Paint, no_paint
from vcrecovery.store.evidence_json import evidence_data

#: Seconds between two steps in which nothing happened, from which on they are worth a line.
GAP = 0.05
_BAR = 20


@dataclass(frozen=True)
class Part:
    """A stretch of the time that a failover took. `record` is None where no step was under way."""

    name: str
    begun_at: float
    seconds: float
    record: StepRecord | None = None


def parts(episode: Episode, now: float) -> list[Part]:
    """The whole time from the detection to the end, or to now, piece by piece."""
    end = episode.closed_at if episode.closed_at is not None else now
    found: list[Part] = []
    at = episode.opened_at
    begins = [*(record.begun_at for record in episode.steps), end][1:]
    for record, next_begin in zip(episode.steps, begins, strict=bool(episode.steps)):
        if record.begun_at - at > 0:
            found.append(Part("before" if record is episode.steps[0] else "between", at, record.begun_at - at))
        # A step that did not end lasted, as far as anybody can tell, until the next one began.
        ended = record.ended_at if record.ended_at is not None else next_begin
        found.append(Part(record.step.value, record.begun_at, max(0.0, ended - record.begun_at), record))
        at = max(at, ended)
    if end - at > 0:
        found.append(Part("after", at, end - at))
    return found


def shares(found: Sequence[Part]) -> list[tuple[str, float]]:
    """Seconds by step, all its tries together, the longest first; what lies between the steps counts too."""
    sums: dict[str, float] = {}
    for part in found:
        name = part.name if part.record is not None else "between the steps"
        sums[name] = sums.get(name, 0.0) + part.seconds
    return sorted(sums.items(), key=lambda entry: -entry[1])


def next_decision(episode: Episode, policy: Policy, now: float) -> Decision:
    """What the core decides."""
    return decide(replace(episode, closed_at=None, outcome=None), policy, now)


def lines(
    episode: Episode,
    policy: Policy,
    now: float,
    *,
    holder: str = "",
    width: int | None = None,
    paint: Paint = no_paint,
) -> list[str]:
    """The explanation. `holder`: the process that is at work on the service, if any."""
    found = parts(episode, now)
    total = sum(part.seconds for part in found)
    biggest = max(found, key=lambda part: part.seconds, default=None)
    return [
        *_head(episode, now, width, paint),
        "",
        *_steps(found, biggest if len(found) > 1 else None, holder, width, paint),
        *_time(found, total, width, paint),
        *_ending(episode, policy, now, holder, width, paint),
    ]


def _head(episode: Episode, now: float, width: int | None, paint: Paint) -> Iterator[str]:
    name, seconds = plain(episode.service), (episode.closed_at or now) - episode.opened_at
    outcome = f"{episode.outcome} after {_took(seconds)}" if episode.outcome else f"not finished after {_took(seconds)}"
    colour = "green" if episode.outcome is Outcome.DONE else "yellow" if episode.outcome else "red"
    yield paint(f"{name}, epoch {episode.epoch}, episode {episode.id}: {outcome}", colour)
    if (began_at := episode.request.began_at) is not None:
        yield from wrapped("  began     ", f"{day_and_time(began_at)}, when it was last seen well", width)
    yield from wrapped("  detected  ", f"{day_and_time(episode.opened_at)}: {episode.cause}", width)
    yield from wrapped("  by        ", _who(episode.request), width)
    if episode.reason:
        yield from wrapped("  result    ", episode.reason, width)


def _who(request: Request) -> str:
    said = [f"{request.by} (automatic)" if request.automatic else request.by]
    if request.force:
        said.append("--force: also if the primary still answers, or the standby is too old")
    if request.primary_is_down:
        said.append("--primary-is-down: their word in place of a fence")
    if request.restore_point is not None:
        said.append(f"--restore-point {request.restore_point}")
    return "; ".join(said)


def _took(seconds: float) -> str:
    if seconds < 0:
        return took(0, seconds)
    return f"{seconds:.3f} s" if seconds < 60 else span(seconds)


def _steps(found: Sequence[Part], biggest: Part | None, holder: str, width: int | None, paint: Paint) -> Iterator[str]:
    # The least telling is left out first: it would stand between what repeats itself.
    shown = [part for part in found if part.record is not None or part.seconds >= GAP]
    for part in condensed(shown, lambda part: same(part.record)):
        if isinstance(part, Repeats):
            yield from wrapped(" " * 16, str(part), width)
            continue
        mark = " (the biggest part)" if part is biggest else ""
        if part.record is None:
            what = "until the first step" if part.name == "before" else "nothing was running"
            yield from wrapped("                ", f"{_took(part.seconds)}{mark}  {what}", width)
            continue
        record = part.record
        why = record.sentence or "(why: the version of that time did not write it down)"
        yield from wrapped(f"  {clock_time(record.begun_at)}  {record.step:<8}  ", why, width)
        result = f"{_took(part.seconds)}{mark}  {_result(record, holder if part is found[-1] else '')}"
        for number, line in enumerate(wrapped(" " * 16, result, width)):
            yield paint(line, "green" if record.ok else "yellow") if number == 0 else line
        proved = evidence.lines(evidence_data(record.evidence))
        size = max((len(name) for name, _ in proved), default=0)
        for name, text in proved:
            yield from wrapped(f"{' ' * 20}{plain(name):<{size}}  ", text, width)


def _result(record: StepRecord, holder: str) -> str:
    if record.ended_at is None:
        return f"running: {holder}" if holder else "did not end: its controller ended in it"
    if record.ok:
        summary = record.summary
        return DONE_WORD[record.step] + (f": {summary}" if summary else "")
    return f"failed: {record.error or 'no reason was recorded'}"


def _time(found: Sequence[Part], total: float, width: int | None, paint: Paint) -> Iterator[str]:
    if total <= 0 or len(found) < 2:
        return
    yield ""
    yield f"  where the {_took(total)} went"
    for number, (name, seconds) in enumerate(shares(found)):
        share = seconds / total
        bar = "#" * round(share * _BAR) if width is None or width >= 70 else ""
        line = f"  {name:<17}  {seconds:9.3f} s  {share:4.0%}  {bar}".rstrip()
        yield paint(line, "yellow") if number == 0 else line


def _ending(
    episode: Episode, policy: Policy, now: float, holder: str, width: int | None, paint: Paint
) -> Iterator[str]:
    if episode.outcome in CAME_TO_NOTHING:
        decision = next_decision(episode, policy, episode.closed_at or now)
        if isinstance(decision, Close) and decision.hint and decision.sentence == episode.reason:
            yield ""
            yield from _said("  to do     ", decision.hint, width, paint)
        return
    if episode.outcome is not None:
        return
    yield ""
    for number, text in enumerate(waits_for(episode, policy, now, holder)):
        yield from wrapped("  then      " if number else "  waits for ", text, width)
    for text in commands(episode, holder):
        yield from _said("  to do     ", text, width, paint)


def _said(first: str, text: str, width: int | None, paint: Paint) -> Iterator[str]:
    for line in wrapped(first, text, width):
        yield paint(line, "bold")


def waits_for(episode: Episode, policy: Policy, now: float, holder: str) -> list[str]:
    """What stands between an episode that is not finished and its end."""
    last = episode.steps[-1] if episode.steps else None
    if last is not None and last.ended_at is None and holder:
        return [f"step {last.step}, which {holder} is in for {span(now - last.begun_at)}"]
    found = []
    if last is not None and last.ended_at is not None and not last.ok:
        found.append(f"a fix for this: {last.error or f'step {last.step} has failed'}")
    elif last is not None and last.ended_at is None:
        found.append(f"a controller: the last one ended in step {last.step}")
    elif not holder:
        found.append("a controller: none is at work on it")
    decision = next_decision(episode, policy, now)
    step = f"step {decision.step}" if isinstance(decision, Run) else "its end"
    return [*found, f"{step}: {decision.sentence}"]


def commands(episode: Episode, holder: str) -> list[str]:
    """What to type next, the first choice first."""
    name = episode.service
    if holder:
        return [f"`vcrecovery status {name} --watch` follows it"]
    # The watcher goes on by itself too, but who reads this cannot know whether one runs.
    failed = episode.steps and episode.steps[-1].ended_at is not None and not episode.steps[-1].ok
    first = "after fixing the cause, " if failed else ""
    typed = f"`vcrecovery {episode.request.typed(name)}`"
    return [f"{first}{typed} continues; a running `vcrecovery watch` does so automatically"]


def as_data(episode: Episode, policy: Policy, now: float, holder: str) -> dict[str, Any]:
    """The same for machines."""
    found = parts(episode, now)
    data = episode_as_data(episode) | {
        "parts": [{"name": part.name, "begun_at": part.begun_at, "seconds": part.seconds} for part in found],
        "shares": [{"name": name, "seconds": seconds} for name, seconds in shares(found)],
        "policy": asdict(policy),
        "waits_for": [],
        "to_do": [],
    }
    if episode.outcome is None:
        data |= {"waits_for": waits_for(episode, policy, now, holder), "to_do": commands(episode, holder)}
    return data
