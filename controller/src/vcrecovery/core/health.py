"""Whether whoever serves answers: from single looks at its ports to an outage. Pure. Times in seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

#: A lost packet is no outage: what does not answer is asked again, so soon, before that is believed.
ASK_AGAIN_AFTER = 0.25
#: And so is what answers again.
STILL_WELL_AFTER = 1.0
#: What ceases to answer so soon after an outage is in the same one.
SAME_OUTAGE = 60.0
#: An outage is over when it has answered for so long; for twice as long each time that it was not: what flaps is down.
STEADY_FOR = 2.0
#: The upper bounds of the histogram of how long answers take, in seconds.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
#: The most characters that are kept of why ports do not answer.
_WORDS = 300


class Health(StrEnum):
    """What users of a service have of it."""

    ANSWERS = "answers"
    SLOW = "slow"
    DOWN = "down"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Answers:
    """One look at all ports of whoever serves, begun `at`, by the wall clock.

    `silent`: those that do not answer as they should, each with why. `seconds`: what the slowest took.
    """

    at: float
    seconds: float
    silent: Mapping[str, str]

    @property
    def why(self) -> str:
        """One line, the same for as long as the reasons are."""
        return "; ".join(f"{label}: {reason}" for label, reason in sorted(self.silent.items()))[:_WORDS]


@dataclass(frozen=True)
class Outage:
    """A time in which a service did not answer. `ended_at` is None while it goes on.

    `times`: how often it ceased to answer in it. What was not watched is not known: one that a controller did not see
    end counts as over when the next one sees it answer.
    """

    id: int
    service: str
    began_at: float
    ended_at: float | None
    why: str
    times: int = 1

    def seconds(self, now: float) -> float:
        """Its length, up to now if it goes on."""
        return max(0.0, (now if self.ended_at is None else self.ended_at) - self.began_at)


@dataclass(frozen=True)
class Course:
    """What the looks at one service have come to.

    `since`: from when on it answers, or does not; None while that is not known. `failing_at`: the first of those looks
    in a row that were bad; `steady_at`: of those that were good, during an outage. `steady_for`: how long they must go
    on for that to be over.
    """

    health: Health = Health.UNKNOWN
    since: float | None = None
    why: str = ""
    seconds: float | None = None
    failing_at: float | None = None
    steady_at: float | None = None
    steady_for: float = STEADY_FOR

    def next_look(self, every: float) -> float:
        """Seconds until then. What is about to change does not wait for its turn."""
        if self.failing_at is not None:
            return ASK_AGAIN_AFTER
        return every if self.steady_at is None else min(every, STILL_WELL_AFTER)


def after(course: Course, answers: Answers, slow_after: float) -> Course:
    """What one more look makes of it."""
    if answers.silent:
        return _bad(course, answers)
    if course.health is Health.DOWN:
        begun = answers.at if course.steady_at is None else course.steady_at
        # A clock that was set back must not keep it down for ever.
        if 0 <= answers.at - begun < course.steady_for:
            return replace(course, steady_at=begun)
        return Course(_answering(answers, slow_after), begun, "", answers.seconds, steady_for=course.steady_for)
    health = _answering(answers, slow_after)
    since = course.since if course.since is not None else answers.at
    return Course(health, since, "", answers.seconds, steady_for=course.steady_for)


def _bad(course: Course, answers: Answers) -> Course:
    if course.health is Health.DOWN:
        return replace(course, why=answers.why, steady_at=None)
    if course.failing_at is None:
        return replace(course, failing_at=answers.at)
    flaps = course.since is not None and abs(course.failing_at - course.since) < SAME_OUTAGE
    steady_for = min(SAME_OUTAGE, 2 * course.steady_for) if flaps else STEADY_FOR
    return Course(Health.DOWN, course.failing_at, answers.why, steady_for=steady_for)


def _answering(answers: Answers, slow_after: float) -> Health:
    return Health.SLOW if answers.seconds > slow_after else Health.ANSWERS


def not_known(course: Course) -> Course:
    """Nobody could ask, or a failover is at work on it: an outage goes on, nothing else is known."""
    return replace(course, steady_at=None) if course.health is Health.DOWN else Course()


@dataclass
class Latencies:
    """How long the answers of one service took: those up to each of BUCKETS, all of them, and their sum."""

    up_to: Counter[float] = field(default_factory=Counter)
    count: int = 0
    total: float = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        self.total += seconds
        self.up_to.update(bound for bound in BUCKETS if seconds <= bound)
