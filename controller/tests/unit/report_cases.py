"""A month with a bit of everything, for the tests of reports."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal

from view_cases import DONE, NOW, OPEN

from vcrecovery.core.ages import Ages, added, of_ages
from vcrecovery.core.drill import Drill, DrillOutcome, DrillStep, StepDone
from vcrecovery.core.episode import Outcome
from vcrecovery.cost.advice import Bear, Chosen, MachineType, Proposal
from vcrecovery.cost.alternatives import Alternative, Way
from vcrecovery.cost.book import Line, Of, Owner
from vcrecovery.cost.money import Rate
from vcrecovery.cost.prices import Per, Price
from vcrecovery.cost.split import Part
from vcrecovery.plan.modes import Mode
from vcrecovery.report.advice import AdviceView, Wish
from vcrecovery.report.costs import CostView
from vcrecovery.report.findings import Finding, Level
from vcrecovery.report.periodic.view import Availability, FreshnessOf, ReportView, ServicePlan
from vcrecovery.report.targets import of_drill, of_episode

BEGIN = NOW - 30 * 86400
#: What would be markup, a formula, or the end of something, wherever it were believed.
HOSTILE = 'x"><script>alert(1)</script>|`$a_b$` [y](javascript:z) \x1b[2J\u202e & <img src=x onerror=z>'


def _ages(middle: float, looks: int = 300, unknown: int = 0) -> Ages:
    known = [middle * (0.4 + 1.2 * n / looks) for n in range(looks)]
    return of_ages([*known, *[None] * unknown])


def _freshness(name: str, middle: float, unknown: int = 0) -> FreshnessOf:
    first = date(2026, 10, 23)
    days = {first + timedelta(n): _ages(middle * (1 + (n * 7 % 11) / 5), unknown=unknown) for n in range(30)}
    return FreshnessOf(name, added(days.values()), days)


def costs() -> CostView:
    def line(of: Of, amount: str) -> Line:
        price = Price(Decimal(amount), "USD", Per.MONTH, "t3.2xlarge", "prices.yml", date(2026, 11, 1))
        return Line(of, price, Decimal(1), "1 machine", Rate(date(2026, 11, 1), "USD", "USD", Decimal(1)))

    found = [
        Alternative(Way.THIS_PLAN, "this plan: 1 secondary", [line(Of(Owner.SECONDARY, "sec1"), "120.50")]),
        Alternative(Way.SHARED, "the same, shared by 4 providers", [line(Of(Owner.SECONDARY, "sec1"), "30.13")]),
        Alternative(Way.SECOND_VMS, "4 VMs that run beside the first", [line(Of(Owner.SERVICE, "web"), "482.00")]),
        Alternative(Way.BACKUPS, "backups", unknown="not known: backups have no price"),
    ]
    return CostView(
        "USD",
        date(2026, 11, 22),
        86400.0,
        found,
        [Part("provider acme", Decimal(100)), Part("service db", Decimal(20))],
    )


def advice() -> AdviceView:
    small, large = MachineType("m1", 2 << 30, 12.0, 1), MachineType("m3", 8 << 30, 120.5, 4)
    found = [
        Proposal([Chosen(large, {"web": Mode.HOT, "db": Mode.FROZEN})], 2.8),
        Proposal([Chosen(small, {"web": Mode.COLD, "db": Mode.COLD})], 7.5),
    ]
    now = Proposal([Chosen(large, {"web": Mode.HOT, "db": Mode.COLD})], 7.5)
    return AdviceView("USD", Bear.HYPERVISOR, [], now, found, found[-1], Wish(), {})


def report() -> ReportView:
    began = replace(DONE, request=replace(DONE.request, began_at=NOW - 2), opened_at=NOW)
    slow = replace(DONE, id=13, service="db", closed_at=NOW + 90)
    slow = replace(slow, steps=(*slow.steps[:-1], replace(slow.steps[-1], ended_at=NOW + 88.0)))
    refused = replace(OPEN, id=14, service="mail", closed_at=NOW + 1, outcome=Outcome.REFUSED, reason=HOSTILE)
    never = replace(OPEN, id=3, service="files", opened_at=NOW - 40 * 86400, steps=DONE.steps[:3])
    steps = (StepDone(DrillStep.START, NOW + 1, 2.0), StepDone(DrillStep.PORTS, NOW + 2, 1.5))
    drill = Drill(3, "web", NOW - 86400, "watch", NOW - 86390, DrillOutcome.PASSED, "", steps)
    failed = Drill(4, "db", NOW - 7200, "ann", NOW - 7000, DrillOutcome.FAILED, "no table shop.orders")
    later = NOW + 3600
    return ReportView(
        made_at=later,
        begin=BEGIN,
        services=[
            ServicePlan("web", "hot", 120.0, "acme", 30.0, 60.0, 7 * 86400.0),
            ServicePlan("db", "cold", 900.0, "", 30.0, 5.0),
            ServicePlan("mail", "cold", 900.0, "acme"),
            ServicePlan("files", "frozen", 900.0, "", 60.0, 60.0),
        ],
        findings=[
            Finding(Level.ATTENTION, "files", "epoch 3 is not finished", "`vcrecovery failover files` continues"),
            Finding(Level.WARNING, "db", f"its last drill has failed: {HOSTILE}", "`vcrecovery drill db`"),
        ],
        operations=[
            of_episode(never, later, 60.0, 60.0),
            of_episode(began, later, 30.0, 60.0),
            of_episode(slow, later, 30.0, 5.0),
            of_episode(refused, later, None, None),
        ],
        drills=[of_drill(drill, 30.0), of_drill(failed, 30.0)],
        freshness=[_freshness("web", 2.0), _freshness("db", 6.0, unknown=7), FreshnessOf("mail"), FreshnessOf("files")],
        availability=[
            Availability("web", 2, 190.0),
            Availability("db", 1, 88.0),
            Availability("mail"),
            Availability("files", 1, 20 * 86400.0, goes_on=True),
        ],
        costs=costs(),
        advice=advice(),
    )


CHANGED = ["New in the plan: files.", f"Provider globex is now called acme; {HOSTILE}."]
