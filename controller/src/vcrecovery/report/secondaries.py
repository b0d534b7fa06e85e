"""What a person has to do about a secondary, whichever services stand by there."""

from __future__ import annotations

from collections.abc import Mapping

from vcrecovery.core.notice import Topic
from vcrecovery.core.text import day_and_time
from vcrecovery.operations.environment import Environment
from vcrecovery.report.findings import Finding, Level
from vcrecovery.store.drained import Drained, DrainedBook
from vcrecovery.store.load_book import LoadBook, Seen


def of_secondaries(env: Environment) -> list[Finding]:
    """Of those that are overloaded, or drained. Raises ExternalError when that cannot be read."""
    if not env.has_a_journal():
        return []
    loads = LoadBook(env.plan.state_dir).read(env.clock.now())
    drained = DrainedBook(env.journal).all()
    return [*overloaded(loads), *being_drained(drained)]


def overloaded(loads: Mapping[str, Seen]) -> list[Finding]:
    """By what the watcher has seen. Pure."""
    found = []
    for name, seen in loads.items():
        if seen.since is not None:
            what = "; ".join(seen.proposal) or "no move relieves it"
            hint = "`vcrecovery rebalance` does it" if seen.proposal else "give services there a spare with room"
            sentence = f"overloaded since {day_and_time(seen.since)} ({seen.why}): {what}"
            found.append(Finding(Level.WARNING, name, sentence, hint, Topic.LOAD))
    return found


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
