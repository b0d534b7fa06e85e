"""What a report tells. Immutable values; `gather` makes them, everything else here reads them. Times in seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from vcrecovery.core.ages import NO_AGES, Ages
from vcrecovery.report.advice import AdviceView
from vcrecovery.report.costs import CostView
from vcrecovery.report.findings import Finding
from vcrecovery.report.targets import Kind, Reached


@dataclass(frozen=True)
class ServicePlan:
    """What the plan says of a service, as far as it matters here."""

    name: str
    mode: str
    max_staleness: float
    provider: str = ""
    rto: float | None = None
    rpo: float | None = None
    drill_every: float | None = None


@dataclass(frozen=True)
class FreshnessOf:
    """How old one service's standby was: over the whole period, and on each day of it, by the local calendar."""

    service: str
    whole: Ages = NO_AGES
    days: Mapping[date, Ages] = field(default_factory=dict)


@dataclass(frozen=True)
class Availability:
    """When one service did not answer, as far as the watcher saw it. `seconds`: of the period only."""

    service: str
    outages: int = 0
    seconds: float = 0.0
    goes_on: bool = False


@dataclass(frozen=True)
class ReportView:
    """One report. `left_out`: so many operations of the period are neither listed nor reckoned: they are too many.
    `drills_left_out`: so many drills of each service likewise. `scheduled`: the next scheduled one begins where it
    ends.

    `advice`: what would be cheaper or faster. `cost_trouble`, `freshness_trouble`, `advice_trouble`: why there is none
    of that; one sentence.
    """

    made_at: float
    begin: float
    services: Sequence[ServicePlan]
    findings: Sequence[Finding] = ()
    operations: Sequence[Reached] = ()
    left_out: int = 0
    drills: Sequence[Reached] = ()
    drills_left_out: Mapping[str, int] = field(default_factory=dict)
    freshness: Sequence[FreshnessOf] = ()
    freshness_trouble: str = ""
    availability: Sequence[Availability] = ()
    costs: CostView | None = None
    cost_trouble: str = ""
    advice: AdviceView | None = None
    advice_trouble: str = ""
    scheduled: bool = False

    @property
    def counted(self) -> list[Reached]:
        """The operations that took a service away."""
        return [entry for entry in self.operations if entry.counts]

    def of_kind(self, kind: Kind) -> list[Reached]:
        return [entry for entry in self.counted if entry.kind is kind]
