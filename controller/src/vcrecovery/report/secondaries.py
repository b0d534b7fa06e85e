"""What a person has to do about a secondary, whichever services stand by there."""

from __future__ import annotations

import math
from collections.abc import Mapping

from vcrecovery.core.notice import Topic
from vcrecovery.core.secondary_power import decide_power
from vcrecovery.core.text import day_and_time
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.secondary_power import SecondaryPower, on_demand_secondaries
from vcrecovery.report.findings import Finding, Level
from vcrecovery.store.drained import Drained, DrainedBook
from vcrecovery.store.load_book import LoadBook, Seen


def of_secondaries(env: Environment) -> list[Finding]:
    """Of those that are overloaded, or drained. Raises ExternalError when that cannot be read."""
    if not env.has_a_journal():
        return []
    loads = LoadBook(env.plan.state_dir).read(env.clock.now())
    drained = {name: one for name, one in DrainedBook(env.journal).all().items() if name in env.plan.secondaries}
    return [*overloaded(loads), *being_drained(drained), *_not_powered_as_they_should_be(env)]


def _not_powered_as_they_should_be(env: Environment) -> list[Finding]:
    """Of those on demand. That one is off, or on, is none."""
    found = []
    for name in on_demand_secondaries(env):
        decision = decide_power(SecondaryPower(env, name).look(), 0.0, math.inf)
        if decision.wrong:
            sentence, _, hint = decision.sentence.partition("; ")
            found.append(Finding(Level.ATTENTION, name, sentence, hint, Topic.UNPROTECTED))
    return found


def overloaded(loads: Mapping[str, Seen]) -> list[Finding]:
    """By what the watcher has seen. Pure."""
    found = []
    for name, seen in loads.items():
        if seen.since is not None:
            what, hint = _relief(seen)
            sentence = f"overloaded since {day_and_time(seen.since)} ({seen.why}): {what}"
            found.append(Finding(Level.WARNING, name, sentence, hint, Topic.LOAD))
    return found


def _relief(seen: Seen) -> tuple[str, str]:
    """What would relieve it, and what to type."""
    if seen.moving:
        return "a service is being moved from or to it", "`vcrecovery status` shows it"
    if seen.load is None:
        return f"its load is not known now: {seen.trouble or 'it was not read since'}", ""
    if seen.proposal:
        return "; ".join(seen.proposal), "`vcrecovery rebalance` does it"
    return "no move relieves it", "give services there a spare with room"


def being_drained(drained: Mapping[str, Drained]) -> list[Finding]:
    """Pure."""
    return [
        Finding(
            Level.WARNING,
            name,
            f"drained since {day_and_time(one.since)} by {one.asked_by}: nothing is moved to it",
            f"`vcrecovery undrain {name}` when the work there is over",
        )
        for name, one in drained.items()
    ]
