"""What `vcrecovery plan advise` proposes, as a table and as data. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vcrecovery.cost.advice import Bear, Chosen, Needs, Proposal
from vcrecovery.cost.times import Measured
from vcrecovery.plan.modes import Mode
from vcrecovery.report.aligned import aligned


@dataclass(frozen=True)
class Wish:
    """Seconds, and an amount a month; None for no wish."""

    recovery: float | None = None
    loss: float | None = None
    budget: float | None = None

    def met_by(self, proposal: Proposal) -> bool:
        fast = self.recovery is None or proposal.recovery <= self.recovery
        return fast and (self.budget is None or proposal.a_month <= self.budget)


@dataclass(frozen=True)
class AdviceView:
    """`now`: the plan as it is, None where its secondaries have no price; `best`: of `front`, None where none will do.

    `excess`: how much memory the plan's secondaries lack in the worst failure, by name. `waits`: what services need
    before they start.
    """

    currency: str
    bear: Bear
    services: Sequence[Needs]
    now: Proposal | None
    front: Sequence[Proposal]
    best: Proposal | None
    wish: Wish
    excess: Mapping[str, str]
    waits: Mapping[str, Sequence[str]] = field(default_factory=dict)


def choose(front: Sequence[Proposal], wish: Wish) -> Proposal | None:
    """The cheapest that is fast enough; where only a budget is named, the fastest within it."""
    good = [proposal for proposal in front if wish.met_by(proposal)]
    if not good:
        return None
    return good[0] if wish.recovery is None and wish.budget is not None else good[-1]


def lines_of(view: AdviceView) -> list[str]:
    what = {Bear.VM: "one VM", Bear.HYPERVISOR: "a hypervisor", Bear.SITE: "a site"}[view.bear]
    rows = [("", "a month", "recovery", "secondaries and how their standbys wait")]
    if view.now is not None:
        rows.append(_row("now", view.now))
    rows += [_row("->" if entry is view.best else "", entry) for entry in view.front]
    lines = [f"in {view.currency}, for the failure of {what} (--bear)", "", *aligned(rows), ""]
    lines += [f"{name} is too small for that: {lack}" for name, lack in view.excess.items()]
    lines += _verdict(view)
    lines += [f"not counted: {name} starts after {', '.join(needs)}" for name, needs in view.waits.items()]
    return [*lines, "", *times_table(view.services)]


def _verdict(view: AdviceView) -> list[str]:
    if not view.front:
        return ["no machine of the price lists is large enough"]
    if view.best is None:
        wish, said = view.wish, []
        if wish.recovery is not None:
            said.append(f"within {wish.recovery:g} s")
        if wish.budget is not None:
            said.append(f"for {wish.budget:g} {view.currency} a month")
        fastest, cheapest = view.front[0], view.front[-1]
        known = f"the fastest takes {fastest.recovery:.1f} s, the cheapest costs {cheapest.a_month:,.2f}"
        return [f"nothing recovers {' and '.join(said)}: {known}"]
    return _of_losses(view)


def _of_losses(view: AdviceView) -> list[str]:
    limit = view.wish.loss
    if limit is None:
        return []
    return [
        f"{service.name}: {service.times.lost.seconds:.0f} s of writes may be lost, more than {limit:g} s: lower its "
        "sync.delay or sync.heartbeat, or sync.reconcile where its engine is periodic"
        for service in view.services
        if service.times.lost.seconds > limit
    ]


def _row(mark: str, proposal: Proposal) -> tuple[str, str, str, str]:
    recovery = "never" if math.isinf(proposal.recovery) else f"{proposal.recovery:.1f} s"
    return (mark, f"{proposal.a_month:,.2f}", recovery, "; ".join(chosen_in_words(one) for one in proposal.secondaries))


def chosen_in_words(one: Chosen) -> str:
    """`t3.large: web, db cold; mail hot`."""
    modes: dict[Mode, list[str]] = {}
    for name, mode in one.standbys.items():
        modes.setdefault(mode, []).append(name)
    parts = [f"{', '.join(names)} {mode}" for mode, names in modes.items()]
    return f"{one.machine.name}: {', '.join(parts)}"


def times_table(services: Sequence[Needs]) -> list[str]:
    """Where the times come from; what was not measured here is marked. Services with the same stand together."""
    same: dict[tuple[str, str, str], list[str]] = {}
    for service in services:
        for what, measured in _times(service):
            same.setdefault((what, f"{measured.seconds:.1f}", measured.spread), []).append(service.name)
    rows = [("seconds", "of", "measured here", "")]
    rows += [(seconds, what, spread, ", ".join(names)) for (what, seconds, spread), names in same.items()]
    return aligned(rows, right=(0,))


def _times(service: Needs) -> Iterator[tuple[str, Measured]]:
    times = service.times
    yield "failure to fence", times.before
    for mode, up in times.up.items():
        if mode in service.modes:
            yield f"start to open ports, {mode}", up
    yield "open ports to DNS", times.after
    yield "writes that may be lost", times.lost


def as_data(view: AdviceView) -> dict[str, Any]:
    return {
        "currency": view.currency,
        "bear": view.bear.value,
        "now": None if view.now is None else _data(view.now),
        "front": [_data(proposal) for proposal in view.front],
        "best": None if view.best is None else view.front.index(view.best),
        "too_small": dict(view.excess),
        "services": [
            {
                "service": service.name,
                "memory": service.memory,
                "lost_seconds": service.times.lost.seconds,
                "lost_samples": service.times.lost.samples,
                "up": {
                    mode.value: {"seconds": up.seconds, "samples": up.samples} for mode, up in service.times.up.items()
                },
            }
            for service in view.services
        ],
    }


def _data(proposal: Proposal) -> dict[str, Any]:
    return {
        "month": round(proposal.a_month, 2),
        "recovery_seconds": None if math.isinf(proposal.recovery) else round(proposal.recovery, 3),
        "secondaries": [
            {"machine": one.machine.name, "standbys": {name: mode.value for name, mode in one.standbys.items()}}
            for one in proposal.secondaries
        ],
    }
