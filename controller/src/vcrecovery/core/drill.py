"""Drills: which clones are booted in which order, when one is due, and what came of it. Pure. Times in seconds."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from graphlib import TopologicalSorter

from vcrecovery.core.text import span

#: LXD's limit for a name.
_LONGEST_NAME = 63
#: The watcher rehearses when this part of `every` is over, so that a good drill is never late when all is well.
_EARLY = 0.9
#: After one that did not pass, and for at most so long, the watcher waits before it tries again.
AGAIN_AFTER = 3600.0
#: Who has asked for a drill that nobody typed.
WATCHER = "the watcher"
#: Bytes that stay free in the pool beside the copies: what clones write while they boot, and what syncs bring.
MARGIN = 256 * 2**20


class DrillStep(StrEnum):
    """What is done for each service, in this order; the value is the word for it when it is done."""

    CLONE = "cloned"
    START = "started"
    PORTS = "ports open"
    COMMAND = "command passed"
    REMOVE = "removed"


class DrillOutcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    #: A failover began.
    GAVE_WAY = "gave way"
    #: Whoever carried it out was killed or interrupted.
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class StepDone:
    """A step that was done at `at`, after `seconds`."""

    step: DrillStep
    at: float
    seconds: float
    detail: str = ""


@dataclass(frozen=True)
class Drill:
    """One service's part of a drill. `outcome` is None while it goes on, or where its program was killed."""

    id: int
    service: str
    began_at: float
    asked_by: str
    ended_at: float | None = None
    outcome: DrillOutcome | None = None
    reason: str = ""
    steps: tuple[StepDone, ...] = ()

    @property
    def recovery(self) -> float | None:
        """Seconds from the start of the clone to its open ports: what a failover by a boot would take here."""
        taken = {done.step: done.seconds for done in self.steps}
        if DrillStep.START not in taken or DrillStep.PORTS not in taken:
            return None
        return taken[DrillStep.START] + taken[DrillStep.PORTS]


@dataclass(frozen=True)
class DrillsOf:
    """What the journal knows of one service. `good`: its newest that passed; `last`: its newest."""

    good: Drill | None = None
    last: Drill | None = None


NO_DRILLS = DrillsOf()


def clone_name(service: str) -> str:
    """The container's, also where the service's own name is almost as long as LXD takes."""
    name = f"drill-{service}"
    if len(name) <= _LONGEST_NAME:
        return name
    mark = hashlib.sha256(service.encode()).hexdigest()[:8]
    return f"{name[: _LONGEST_NAME - 9]}-{mark}"


def with_needs(services: Iterable[str], needs: Callable[[str], Sequence[str]]) -> list[str]:
    """These services and all that they need, directly or through others, each after what it needs."""
    graph: dict[str, Sequence[str]] = {}
    asked = list(services)
    while asked:
        name = asked.pop(0)
        if name not in graph:
            graph[name] = needs(name)
            asked += graph[name]
    return list(TopologicalSorter(graph).static_order())


def is_overdue(every: float | None, good: Drill | None, now: float) -> bool:
    """Whether a drill should have passed by now."""
    return every is not None and (good is None or _since(good, now) > every)


def is_due(every: float | None, known: DrillsOf, now: float) -> bool:
    """Whether the watcher is to rehearse now."""
    if every is None:
        return False
    last, good = known.last, known.good
    if last is not None and last.outcome is not DrillOutcome.PASSED and _since(last, now) < min(every, AGAIN_AFTER):
        return False
    return good is None or _since(good, now) >= _EARLY * every


def longest_waiting_first(due: Sequence[str], known: Callable[[str], DrillsOf]) -> list[str]:
    """Those that were never rehearsed, and then those whose drill was longest ago."""
    return sorted(due, key=lambda name: last.began_at if (last := known(name).last) else float("-inf"))


def _since(drill: Drill, now: float) -> float:
    # A clock that was set back must not put the next one off for ever.
    return abs(now - (drill.ended_at or drill.began_at))


# -- sentences -----------------------------------------------------------------------------------------------------


def overdue_sentence(every: float, good: Drill | None, now: float) -> str:
    wanted = f"one is due every {span(every)}"
    if good is None:
        return f"no drill has ever passed; {wanted}"
    return f"no drill has passed for {span(_since(good, now))}; {wanted}"


def size(count: float) -> str:
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count:.0f} B"


def room_problem(what: str, pool: str, needed: int, free: int) -> str:
    """Why the copies, `needed` bytes of them, cannot be made; empty when they can."""
    if free >= needed + MARGIN:
        return ""
    copies = f"{size(needed)} for copies and " if needed else ""
    return f"pool {pool}: {what} needs {copies}{size(MARGIN)} to spare, and {size(free)} are free"


def step_plan(service: str, address: str, ports: Sequence[str], command: Sequence[str]) -> str:
    """What a drill would do with one service."""
    checks = f", run `{' '.join(command)}`" if command else ""
    where = ", ".join(ports)
    return f"clone it as {clone_name(service)}, start that at {address}, wait for {where}{checks}, remove it"
