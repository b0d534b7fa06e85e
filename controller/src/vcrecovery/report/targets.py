"""RTO and RPO that operations and drills have reached, against the targets of the plan. Pure. Times in seconds.

RTO: from when the failure began (or was noticed, where nobody knows that) up to the end of the last step after which
clients reach the service: the DNS check, else the DNS switch, else the open ports. A planned move takes the service
away from its shutdown on. RPO: how old the standby's files were when the failure began, as the confirmation found them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from vcrecovery.core.drill import WATCHER, Drill, DrillOutcome
from vcrecovery.core.episode import Episode, Outcome, Step, StepRecord
from vcrecovery.core.evidence import Restored

_BACK_AT_WORK = (Step.VERIFY, Step.SWITCH, Step.PROBE)


class Kind(StrEnum):
    FAILOVER = "failover"
    SWITCHOVER = "switchover"
    FAILBACK = "failback"
    MOVE = "move"
    DRILL = "drill"


class Verdict(StrEnum):
    """What came of a target."""

    MET = "met"
    MISSED = "missed"
    #: The plan has none.
    NO_TARGET = "no target"
    #: Nothing was reached that could be compared.
    UNKNOWN = "not known"


@dataclass(frozen=True)
class Reached:
    """One operation or drill. `until`: what the RTO ends with. `goes_on`: it is not over, `rto` is the time so far."""

    kind: Kind
    number: int
    service: str
    began_at: float
    outcome: str
    reason: str = ""
    automatic: bool = False
    rto: float | None = None
    until: str = ""
    goes_on: bool = False
    rpo: float | None = None
    rto_target: float | None = None
    rpo_target: float | None = None

    @property
    def rto_verdict(self) -> Verdict:
        found = _verdict(self.rto, self.rto_target)
        # What is not over yet may miss it still.
        return Verdict.UNKNOWN if self.goes_on and found is Verdict.MET else found

    @property
    def rpo_verdict(self) -> Verdict:
        # A drill loses nothing.
        return Verdict.NO_TARGET if self.kind is Kind.DRILL else _verdict(self.rpo, self.rpo_target)

    @property
    def missed(self) -> bool:
        return Verdict.MISSED in (self.rto_verdict, self.rpo_verdict)

    @property
    def counts(self) -> bool:
        """Whether it took the service away, or rehearsed that; not so what was refused, or no failure."""
        return self.rto is not None


def _verdict(reached: float | None, target: float | None) -> Verdict:
    if target is None:
        return Verdict.NO_TARGET
    if reached is None:
        return Verdict.UNKNOWN
    return Verdict.MET if reached <= target else Verdict.MISSED


def of_episode(episode: Episode, now: float, rto_target: float | None, rpo_target: float | None) -> Reached:
    """What a failover, switchover or failback has reached, also one that never ended."""
    began_at, rto, until = _away(episode, now)
    return Reached(
        kind=Kind(episode.request.verb),
        number=episode.id,
        service=episode.service,
        began_at=began_at,
        outcome=episode.outcome.value if episode.outcome else "not finished",
        reason="" if episode.outcome is Outcome.DONE else episode.reason,
        automatic=episode.request.automatic,
        rto=rto,
        until=until,
        goes_on=episode.outcome is None and rto is not None,
        rpo=_lost(episode),
        rto_target=rto_target,
        rpo_target=rpo_target,
    )


def of_drill(drill: Drill, rto_target: float | None) -> Reached:
    passed = drill.outcome is DrillOutcome.PASSED
    return Reached(
        kind=Kind.DRILL,
        number=drill.id,
        service=drill.service,
        began_at=drill.began_at,
        outcome=drill.outcome.value if drill.outcome else "not finished",
        reason=drill.reason,
        automatic=drill.asked_by == WATCHER,
        rto=drill.recovery if passed else None,
        until="ports open" if passed and drill.recovery is not None else "",
        rto_target=rto_target,
    )


def _away(episode: Episode, now: float) -> tuple[float, float | None, str]:
    """From when on, for how long, and until what the service was away."""
    request = episode.request
    if request.leaves is not None:
        # Its primary has served all the time.
        return episode.opened_at, None, ""
    if request.back or request.planned:
        first = next((record for record in episode.steps if record.step in (Step.SHUTDOWN, Step.STOP)), None)
        if first is None:
            return episode.opened_at, None, ""
        began_at = first.begun_at
    else:
        began_at = min(request.began_at or episode.opened_at, episode.opened_at)
    if episode.outcome is None:
        return began_at, _between(began_at, now), "so far"
    end = _end(episode)
    return (began_at, None, "") if end is None else (began_at, _between(began_at, end[0]), end[1])


def _end(episode: Episode) -> tuple[float, str] | None:
    """When clients reached the service again, and by which step; None where nothing was taken away from them."""
    if episode.outcome is Outcome.TAKEN_BACK:
        # Of a switchover its VM serves again, of a failback its standby.
        last = _newest(episode, (Step.TAKE_BACK, Step.START))
        return None if last is None else (last[0], "taken back")
    if episode.outcome is not Outcome.DONE:
        return None
    last = _newest(episode, _BACK_AT_WORK)
    words = {Step.VERIFY: "DNS checked", Step.SWITCH: "DNS switched", Step.PROBE: "ports open"}
    return (episode.closed_at or episode.opened_at, "end") if last is None else (last[0], words[last[1]])


def _newest(episode: Episode, steps: Sequence[Step]) -> tuple[float, Step] | None:
    """The first of these steps that was done."""
    for step in steps:
        record: StepRecord | None = episode.done(step)
        if record is not None and record.ended_at is not None:
            return record.ended_at, step
    return None


def _between(begin: float, end: float) -> float | None:
    """None where a clock was set back meanwhile: then nobody knows."""
    return end - begin if end >= begin else None


def _lost(episode: Episode) -> float | None:
    """Seconds of writes. A planned move that was done lost none; of a standby that only came up again none is asked."""
    request, outcome = episode.request, episode.outcome
    if request.leaves is not None:
        return None
    if request.planned or request.back:
        return 0.0 if outcome is Outcome.DONE else None
    if request.again or not (outcome is Outcome.DONE or (outcome is None and episode.has_acted)):
        return None
    restored = episode.done(Step.RESTORE)
    if restored is not None and isinstance(restored.evidence, Restored):
        return restored.evidence.age
    confirmed = episode.first_confirmed
    return None if confirmed is None else confirmed.saw.freshness
