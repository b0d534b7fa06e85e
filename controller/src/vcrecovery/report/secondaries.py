"""What a person has to do about a secondary, whichever services stand by there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vcrecovery.balance.words import pressure
from vcrecovery.core.lease import Lease, LeaseState
from vcrecovery.core.notice import Topic
from vcrecovery.core.secondary_power import decide_power
from vcrecovery.core.text import day_and_time
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.secondary_power import SecondaryPower, on_demand_secondaries
from vcrecovery.report.findings import Finding, Level
from vcrecovery.report.left_the_plan import of_those_that_left
from vcrecovery.store.drained import Drained, DrainedBook
from vcrecovery.store.leases import LeaseBook
from vcrecovery.store.load_book import LoadBook, Seen


def of_secondaries(env: Environment) -> list[Finding]:
    """Of those that are overloaded, drained, or made for a while, and of services there that have left the plan.

    Raises ExternalError when that cannot be read.
    """
    if not env.has_a_journal():
        return []
    loads = LoadBook(env.plan.state_dir).read(env.clock.now())
    drained = {name: one for name, one in DrainedBook(env.journal).all().items() if name in env.plan.secondaries}
    powered = _not_powered_as_they_should_be(env)
    return [*overloaded(loads), *being_drained(drained), *powered, *_lent(env), *of_those_that_left(env)]


def _not_powered_as_they_should_be(env: Environment) -> list[Finding]:
    """Of those on demand. That one is off, or on, is none."""
    found = []
    for name in on_demand_secondaries(env):
        decision = decide_power(SecondaryPower(env, name).look(), 0.0, env.plan.secondaries[name].power_off_after)
        if decision.wrong:
            sentence, _, hint = decision.sentence.partition("; ")
            found.append(Finding(Level.ATTENTION, name, sentence, hint, Topic.UNPROTECTED))
    return found


def _lent(env: Environment) -> list[Finding]:
    leases = LeaseBook(env.journal).open()
    known = env.plan.services

    def on(lease: Lease) -> list[str]:
        names = env.journal.bound_to(lease.name)
        return [name if name in known else f"{name} (which is not in the plan any more)" for name in names]

    return lent(leases, {lease.name: on(lease) for lease in leases})


def lent(leases: Sequence[Lease], serving: Mapping[str, Sequence[str]]) -> list[Finding]:
    """`serving`: the services on each. Pure."""
    return [
        Finding(
            # What may be paid for without end is for now.
            Level.ATTENTION if lease.state is LeaseState.RELEASING and lease.trouble else Level.WARNING,
            lease.name,
            *_of_a_lease(lease, serving.get(lease.name, [])),
            Topic.LOAD,
        )
        for lease in leases
    ]


def _of_a_lease(lease: Lease, services: Sequence[str]) -> tuple[str, str]:
    """What it is at, and the way out."""
    if lease.is_coming:
        return f"being made since {day_and_time(lease.asked_at)}, since {lease.why}", "the watcher goes on with it"
    if lease.state is LeaseState.RELEASING:
        if lease.trouble:
            return lease.trouble, ""
        why = f"; {lease.failure}" if lease.failure else ""
        return f"being given back since {day_and_time(lease.releasing_at or 0.0)}{why}", ""
    there = (
        f"{', '.join(services)} {'serves' if len(services) == 1 else 'serve'} there"
        if services
        else "nobody serves there"
    )
    trouble = f"; {lease.trouble}" if lease.trouble else ""
    return (
        f"made for a while, since {day_and_time(lease.made_at or 0.0)}: {there}{trouble}",
        f"`vcrecovery drain {lease.name}` gives it back before its time",
    )


def overloaded(loads: Mapping[str, Seen]) -> list[Finding]:
    """By what the watcher has seen. Pure."""
    found = []
    for name, seen in loads.items():
        if seen.since is not None:
            what, hint = _relief(seen)
            waits = pressure(seen.load) if seen.load is not None else ""
            sentence = (
                f"overloaded since {day_and_time(seen.since)} ({', '.join(filter(None, (seen.why, waits)))}): {what}"
            )
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
