"""What is wrong with a service for a while, as `status` sees it: from when on it is told, and when it is over. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vcrecovery.core.notice import Notice, Topic, lines
from vcrecovery.core.text import cut, plain, span

#: Seconds for which nothing may be found before it is over: one look may fall between two bad moments.
WELL_AFTER = 60.0
_TITLE = 100
_WELL = {
    Topic.DOWN: "served again",
    Topic.UNPROTECTED: "protected again",
    Topic.DRILL: "its drills are well again",
    Topic.POOL: "its pool has room again",
    Topic.LOAD: "it is not overloaded any more",
}


@dataclass(frozen=True)
class Trouble:
    """One kind of trouble of one service; `urgent`: it was for now, and not only for the morning.

    `gone_since`: when it was not found any more, None while it is.
    """

    service: str
    topic: Topic
    since: float
    urgent: bool = False
    gone_since: float | None = None

    @property
    def key(self) -> str:
        """What all that is told of it begins with."""
        return f"{self.topic} {self.service} {self.since:.0f} "

    def is_over(self, now: float) -> bool:
        return self.gone_since is not None and now - self.gone_since >= WELL_AFTER


@dataclass(frozen=True)
class Found:
    """What one look has found of one kind of one service: `said` are sentences with their ways out."""

    urgent: bool
    said: tuple[tuple[str, str], ...]


def after_a_look(before: Trouble | None, service: str, topic: Topic, found: Found | None, now: float) -> Trouble | None:
    """What is known after a look; None where nothing is, and nothing was, wrong."""
    if before is not None:
        before = replace(before, since=min(before.since, now))  # the clock may have been set back
    if found is not None:
        known = before or Trouble(service, topic, now)
        return replace(known, urgent=known.urgent or found.urgent, gone_since=None)
    if before is None:
        return None
    gone = now if before.gone_since is None else min(before.gone_since, now)
    return replace(before, gone_since=gone)


def told(trouble: Trouble, found: Found, after: float, now: float) -> Notice | None:
    """What is to be told of it, once it has lasted for so many seconds; once more when it becomes urgent."""
    if now - trouble.since < after:
        return None
    first, rest = found.said[0], found.said[1:]
    level = "now" if trouble.urgent else "later"
    return Notice(
        f"{trouble.key}{level}",
        trouble.topic,
        trouble.service,
        now,
        cut(plain(f"{trouble.service}: {first[0]}"), _TITLE),
        lines(
            f"{_sentence(first[0])} So for {span(now - trouble.since)}; {_WHEN[level]}.",
            *(_sentence(sentence) for sentence, _ in rest),
            *_next(found.said),
        ),
    )


_WHEN = {"now": "it needs attention now", "later": "it can wait for the morning"}


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _next(said: Sequence[tuple[str, str]]) -> list[str]:
    """The ways out, each once."""
    return [f"Next: {hint}." for hint in dict.fromkeys(hint for _, hint in said if hint)]


def well(trouble: Trouble, now: float) -> Notice:
    """Of one that was told, and is over."""
    gone = trouble.gone_since if trouble.gone_since is not None else now
    title = f"{trouble.service}: {_WELL.get(trouble.topic, 'well again')}"
    body = f"After {span(gone - trouble.since)}. Next: nothing."
    return Notice(f"{trouble.key}well", trouble.topic, trouble.service, now, plain(title), body)
