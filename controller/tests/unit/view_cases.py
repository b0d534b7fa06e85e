"""Services and failovers that the views are tested with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from vcrecovery.core.domain import DomainReading
from vcrecovery.core.episode import Episode, Outcome, Request, Step, StepRecord
from vcrecovery.core.health import Course, Health
from vcrecovery.core.power import Power
from vcrecovery.core.service_state import ServiceState, Side
from vcrecovery.core.verdict import judge, with_health
from vcrecovery.report.view import NameView, PlanView, ServiceView, StandbyView
from vcrecovery.store.evidence_json import of_data
from vcrecovery.transfer.freshness import Freshness, Reconcile

#: 2026-11-22 03:12:04 UTC.
NOW = 1795317124.0
RUNNING = DomainReading(Power.RUNNING)
CRASHED = DomainReading(Power.SHUTOFF, "crashed")

ANSWERS = Course(Health.ANSWERS, NOW - 9999, "", 0.004)
SLOW = Course(Health.SLOW, NOW - 9999, "", 2.5)
DOWN = Course(Health.DOWN, NOW - 300, "10.10.0.10:443: connection refused")

PLAN = PlanView(
    hypervisor="hv1",
    site="main",
    secondary="sec1",
    mode="cold",
    uuid="6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0001",
    primary_address="10.10.0.10",
    standby_address="10.20.0.10",
    max_staleness=120.0,
)
SYNCED = Reconcile(began=NOW - 902.3, ended=NOW - 900, bytes=1_200_000, files=12)


def standby(age: float | None = 5.0, state: str = "stopped", detail: str = "", **changes: Any) -> StandbyView:
    stamped = None if age is None else NOW - age
    fresh = Freshness(stamped, detail, stamped, 0, replace(SYNCED, **changes))
    return StandbyView(state, detail, age, fresh)


def view(name: str = "web", reading: DomainReading = RUNNING, **changes: Any) -> ServiceView:
    """A service that is well, but for the changes."""
    state = changes.pop("state", ServiceState(name, seen_running_at=NOW - 9999))
    address = PLAN.primary_address if state.side is Side.PRIMARY else PLAN.standby_address
    course = changes.pop("course", ANSWERS if reading.power is Power.RUNNING or state.side is Side.STANDBY else DOWN)
    fields: dict[str, Any] = {
        "course": course,
        "plan": PLAN,
        "standby": standby(),
        "names": (NameView("www.example.test", (address,), (address,)),),
        "verdict": with_health(judge(state, reading.power, reading.reason, NOW), state, course),
        **changes,
    }
    return ServiceView(name=name, at=NOW, state=state, reading=reading, **fields)


def step(kind: Step, begun: float, ended: float | None, ok: bool = True, why: str = "", **evidence: Any) -> StepRecord:
    """Times in seconds after NOW."""
    left = of_data(kind, ok=ok, data=evidence) if evidence else None
    return StepRecord(kind, NOW + begun, None if ended is None else NOW + ended, ok, left, why)


CONFIRM = step(
    Step.CONFIRM,
    0.012,
    0.213,
    why="asking for a second signal: libvirt: shutoff (crashed)",
    restore_asked=None,
    restore_problem="",
    restore_age=None,
    power="shutoff",
    reason="crashed",
    detail="",
    vanished=False,
    open_ports=[],
    standby_problem="",
    freshness=8.4,
    freshness_detail="",
    summary="hv1: shutoff (crashed); no port of 10.10.0.10 answers",
)
FENCE = step(
    Step.FENCE,
    0.214,
    0.32,
    why="failure confirmed (hv1: shutoff (crashed); no port of 10.10.0.10 answers): fencing the primary",
    summary="hv1: shutoff (crashed)",
    by="libvirt",
    power="shutoff",
)
START = step(
    Step.START,
    0.321,
    1.2,
    why="the primary is fenced: starting the standby",
    summary="container web on sec1; 1 session of its primary ended",
    was_running=False,
    sessions_ended=1,
)
PROBE = step(
    Step.PROBE,
    1.201,
    4.6,
    why="the standby runs: waiting for its ports",
    summary="10.20.0.10:80, 10.20.0.10:443",
    address="10.20.0.10",
)
SWITCH = step(
    Step.SWITCH,
    4.601,
    4.65,
    why="every port answers: switching DNS",
    summary="www.example.test -> 10.20.0.10",
    before={"www.example.test": ["10.10.0.10"]},
)
VERIFY = step(Step.VERIFY, 4.651, 4.7, why="DNS has changed: asking every authoritative server", summary="on ns1, ns2")
OPEN = Episode(12, "web", 3, "libvirt: shutoff (crashed)", Request(automatic=True, by="watch"), NOW)
DONE = replace(
    OPEN,
    steps=(CONFIRM, FENCE, START, PROBE, SWITCH, VERIFY),
    closed_at=NOW + 4.701,
    outcome=Outcome.DONE,
    reason="web is served by its standby",
)
#: A controller that died in the start, and another that could not open the ports.
STOPPED = replace(
    OPEN,
    request=Request(force=True, by="ann"),
    steps=(
        CONFIRM,
        FENCE,
        step(Step.START, 0.321, None, ok=False, why="the primary is fenced: starting the standby"),
        replace(START, begun_at=NOW + 30, ended_at=NOW + 31),
        step(
            Step.PROBE,
            31.0,
            91.0,
            ok=False,
            why="the standby runs: waiting for its ports",
            error="the standby of web does not answer on 10.20.0.10:80 after 60 s; DNS was not changed; look inside "
            "with `lxc exec web -- systemctl --failed`, then run it again",
        ),
    ),
)
REFUSED = replace(
    OPEN,
    request=Request(by="ann"),
    cause="requested by ann",
    steps=(replace(CONFIRM, evidence=replace(CONFIRM.saw, freshness=700.0)),),
    closed_at=NOW + 0.22,
    outcome=Outcome.REFUSED,
    reason="the standby of web is 700 s old, more than its max_staleness of 120 s",
)
