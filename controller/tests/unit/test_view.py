"""What the views say, from values alone: findings, table, detail, explanation. Golden texts stand in `golden/`.

`VCRECOVERY_REWRITE=1` writes them anew: read the difference before you commit it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from view_cases import CRASHED, DONE, DOWN, NOW, OPEN, PLAN, REFUSED, RUNNING, STOPPED, standby, step, view

from vcrecovery.core.decide import decide
from vcrecovery.core.decisions import Close, Run
from vcrecovery.core.domain import DomainReading
from vcrecovery.core.episode import Episode, Outcome, Request, Step, StepRecord, Symptom
from vcrecovery.core.health import Course
from vcrecovery.core.notice import Topic
from vcrecovery.core.policy import Policy
from vcrecovery.core.power import Power
from vcrecovery.core.returning import Quarantine
from vcrecovery.core.service_state import ServiceState, Side, Suspension
from vcrecovery.core.text import cells, cut, plain, span, wrapped
from vcrecovery.core.verdict import Kind
from vcrecovery.errors import ExitCode
from vcrecovery.report import evidence, explain, status
from vcrecovery.report.findings import Level, all_findings, exit_code, findings
from vcrecovery.report.history import moment
from vcrecovery.report.protection import Protected, Protection, protection
from vcrecovery.report.timeline import of_episode
from vcrecovery.report.view import KeptView, NameView, ServiceView, StandbyView

GOLDEN = Path(__file__).parent / "golden"
POLICY = Policy(max_staleness=120.0)
SERVED = ServiceState("web", epoch=3, side=Side.STANDBY, seen_running_at=NOW - 9999)
SUSPENDED = DomainReading(Power.PAUSED)
UNDER_MAINTENANCE = ServiceState("web", seen_running_at=NOW - 9999, suspension=Suspension(NOW - 9, None, "x"))
REBUILT = Suspension(NOW - 9, None, "rebuilt")
FOR_AN_HOUR = Suspension(NOW - 9, NOW + 3600, "work")
HELD = Quarantine(1, "web", 3, PLAN.uuid, NOW - 60.1, NOW - 60)
HOSTILE = "evil\x1b]0;title\x07\x1b[2J\r\nweb: all is well\u202e\x9b31m"


pytestmark = pytest.mark.usefixtures("in_utc")


def golden(name: str, lines: Sequence[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("VCRECOVERY_REWRITE"):
        file.write_text(text)
    assert text == file.read_text()


def many() -> list[ServiceView]:
    """One of each kind."""
    opened = ServiceState("db", epoch=2, seen_running_at=NOW - 9999, open_episode=replace(STOPPED, service="db"))
    return [
        view(),
        view("mail", standby=standby(700.0)),
        view("db", CRASHED, state=opened, last=opened.open_episode),
        view(
            "shop",
            DomainReading(Power.UNREACHABLE, detail="hypervisor hv1 did not answer within 5 s"),
            standby=StandbyView("unreachable", "LXD on secondary sec1 did not answer within 5 s"),
            names=(NameView("shop.example.test", None, ("10.10.0.10",), "DNS server ns1 does not answer: refused"),),
        ),
        view("files", CRASHED, state=replace(SERVED, service="files"), standby=standby(None, "running"), done=DONE),
        view(
            "test",
            DomainReading(Power.SHUTOFF, "shutdown"),
            state=ServiceState(
                "test", seen_running_at=NOW - 99, suspension=Suspension(NOW - 60, NOW + 3600, "new disk")
            ),
        ),
    ]


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("table", lambda: status.table(many())),
        ("table-narrow", lambda: status.table(many(), width=60)),
        ("table-well", lambda: status.table([view(), view("mail")])),
        ("detail-well", lambda: status.detail(view(ports={"10.10.0.10:80": "", "10.10.0.10:443 tls": ""}))),
        ("detail-kept", lambda: status.detail(kept())),
        ("detail-stopped", lambda: status.detail(many()[2])),
        ("detail-narrow", lambda: status.detail(many()[3], width=50)),
        ("detail-failed-over", lambda: status.detail(many()[4])),
        ("explain-done", lambda: explain.lines(DONE, POLICY, NOW + 99)),
        ("explain-narrow", lambda: explain.lines(DONE, POLICY, NOW + 99, width=60)),
        ("explain-stopped", lambda: explain.lines(STOPPED, POLICY, NOW + 100)),
        ("explain-under-way", lambda: explain.lines(under_way(), POLICY, NOW + 3, holder="process 77")),
        ("explain-refused", lambda: explain.lines(REFUSED, POLICY, NOW + 99)),
        ("explain-just-opened", lambda: explain.lines(OPEN, POLICY, NOW + 99)),
        ("history", lambda: [line for episode in (REFUSED, STOPPED, DONE) for line in of_episode(episode)]),
    ],
)
def test_golden(name: str, make: Callable[[], list[str]]) -> None:
    golden(name, make())


def kept() -> ServiceView:
    """Its failback is not committed yet."""
    return view(standby=replace(standby(), kept=KeptView("vcr-20260301T120000Z-before-failback", NOW + 3600)))


def test_no_way_back_from_a_failback_is_named_while_the_standby_serves() -> None:
    (line,) = [line for line in status.detail(replace(many()[4], standby=kept().standby)) if line.startswith("  kept")]
    assert line.endswith("until 2026-11-22 04:12:04")


def test_a_virtual_address_is_shown() -> None:
    shown = view(plan=replace(PLAN, virtual_ip="10.10.0.50 on eth0"))
    assert any(line.startswith("  address   10.10.0.50 on eth0") for line in status.detail(shown))
    assert status.as_data(shown)["virtual_ip"] == "10.10.0.50 on eth0"


@pytest.mark.parametrize(
    ("has", "said"),
    [
        (True, "10.10.0.50 on eth0 of this machine"),
        (False, "10.10.0.50 on eth0 is to be this machine's, and is not"),
        (None, "10.10.0.50 on eth0 of the controller's machine; whether it is there is not known here"),
    ],
)
def test_a_virtual_address_that_is_not_here_while_the_standby_serves_is_a_finding(has: bool | None, said: str) -> None:
    seen = view(
        reading=CRASHED,
        state=SERVED,
        standby=standby(state="running"),
        plan=replace(PLAN, virtual_ip="10.10.0.50 on eth0"),
        has_address=has,
    )
    assert f"  address   {said}" in status.detail(seen)
    assert status.as_data(seen)["has_virtual_ip"] is has
    found = [one for one in findings(seen) if "virtual address" in one.sentence]
    assert [(one.level, one.topic) for one in found] == ([(Level.ATTENTION, Topic.DOWN)] if has is False else [])
    assert exit_code(findings(seen)) is (ExitCode.ATTENTION if has is False else ExitCode.WARNING)
    # On its way there, or given up since its primary serves.
    for state in (replace(SERVED, open_episode=OPEN), ServiceState("web", seen_running_at=NOW - 9999)):
        assert not any("virtual address" in one.sentence for one in findings(replace(seen, state=state)))


def under_way() -> Episode:
    return replace(OPEN, steps=(*DONE.steps[:3], step(Step.PROBE, 1.201, None, ok=False, why=DONE.steps[3].sentence)))


@pytest.mark.parametrize("width", [20, 33, 60, 80])
def test_nothing_is_wider_than_the_terminal(width: int) -> None:
    shown = [*status.table(many(), width), *explain.lines(STOPPED, POLICY, NOW + 100, width=max(width, 60))]
    for one in many():
        shown += status.detail(one, width)
    # A word that has no break in it, and what stands at a line's head, may be wider than the narrowest.
    for line in shown:
        assert cells(line) <= max(width, 60) or " " not in line.strip(), line


def test_a_service_that_is_well_needs_nobody() -> None:
    assert findings(view()) == []
    assert exit_code([]) is ExitCode.DONE


def waiting(mode: str, state: str, chosen: str = "", **changes: Any) -> ServiceView:
    """A standby that was booted, or refreshed, so many seconds ago; refreshed every 1,000 s."""
    ago = {name: NOW - changes.pop(name) for name in ("started_at", "refreshed_at") if name in changes}
    plan = replace(PLAN, mode=mode, chosen_mode=chosen, refresh_every=1000.0)
    return view(plan=plan, standby=replace(standby(state=state), **ago), **changes)


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (waiting("frozen", "stopped"), "is to wait in mode frozen, and its container is stopped"),
        (waiting("hot", "stopped"), "is to wait in mode hot, and its container is stopped"),
        (waiting("hot", "frozen", refreshed_at=9), "is to wait in mode hot, and its container is frozen"),
        (waiting("warm", "error"), "is to wait in mode warm, and its container is error"),
        (waiting("cold", "running"), "is to wait in mode cold, and its container is running"),
        (waiting("frozen", "running", refreshed_at=700), "is to wait in mode frozen, and its container is running"),
        (waiting("frozen", "running", started_at=301), "is to wait in mode frozen, and its container is running"),
        (waiting("hot", "running", started_at=420), "was booted for mode hot 7 min ago, and is not ready"),
        (waiting("frozen", "frozen", refreshed_at=1420), "is 7 min late to be refreshed"),
        (waiting("frozen", "running", refreshed_at=1420), "is to wait in mode frozen, and its container is running"),
    ],
)
def test_a_standby_that_does_not_wait_as_it_is_to(seen: ServiceView, said: str) -> None:
    (found,) = findings(seen)
    assert found.level is Level.WARNING
    assert said in found.sentence
    assert "`vcrecovery standby set web plan`" in found.hint


def test_a_mode_that_was_chosen_is_kept() -> None:
    (found,) = findings(waiting("warm", "stopped", chosen="warm"))
    assert "`vcrecovery standby set web warm`" in found.hint
    assert any("mode warm (chosen, not the plan's)" in line for line in status.detail(waiting("warm", "x", "warm")))


@pytest.mark.parametrize(
    "seen",
    [
        waiting("cold", "stopped"),
        waiting("hot", "running", refreshed_at=1100),
        waiting("warm", "running", started_at=9),
        waiting("frozen", "frozen", refreshed_at=900),
        # Booting, refreshed a moment ago, and being refreshed.
        waiting("frozen", "running", started_at=60),
        waiting("frozen", "running", refreshed_at=60),
        waiting("frozen", "running", refreshed_at=1060),
        waiting("hot", "stopped", holder="process 1"),
        waiting("not known", "stopped"),
    ],
)
def test_a_standby_on_its_way_into_its_mode_is_no_finding(seen: ServiceView) -> None:
    assert findings(seen) == []


def test_a_standby_whose_age_is_not_known_is_said_once() -> None:
    seen = waiting("hot", "stopped")
    assert len(findings(replace(seen, standby=replace(seen.standby, age=None)))) == 1


@pytest.mark.parametrize(
    ("seen", "level", "said"),
    [
        (view(reading=CRASHED), Level.ATTENTION, "the primary is shutoff (crashed); the watcher fails it over"),
        (view(reading=CRASHED, last=REFUSED), Level.ATTENTION, "no failover: the standby of web is 700 s old"),
        (view(reading=DomainReading(Power.SHUTOFF, "destroyed")), Level.ATTENTION, "not served: "),
        (view(reading=SUSPENDED, course=Course()), Level.WARNING, "the primary is paused"),
        (view(reading=SUSPENDED), Level.ATTENTION, f"connection refused; `virsh resume {PLAN.uuid}` on hv1"),
        (
            view(reading=RUNNING, state=SERVED, standby=standby(state="running")),
            Level.ATTENTION,
            f"is running although the standby serves; `virsh destroy {PLAN.uuid}` on hv1 shuts it down; to work in it",
        ),
        (
            view(reading=RUNNING, state=replace(SERVED, suspension=REBUILT), standby=standby(state="running")),
            Level.WARNING,
            "beside the standby, as you have allowed until further notice; `vcrecovery failback web` returns to it",
        ),
        (
            view(reading=SUSPENDED, state=replace(SERVED, suspension=FOR_AN_HOUR), standby=standby(state="running")),
            Level.WARNING,
            "its VM is paused beside the standby, as you have allowed until 2026-11-22 04:12:04",
        ),
        (
            view(reading=CRASHED, state=SERVED, standby=standby(state="stopped")),
            Level.ATTENTION,
            "stopped; `vcrecovery failover web`",
        ),
        (view(reading=CRASHED, state=SERVED, standby=standby(state="running")), Level.WARNING, "failback web"),
        (
            view(reading=SUSPENDED, state=SERVED, standby=standby(state="running"), quarantine=HELD),
            Level.WARNING,
            (
                "came back after its failover: quarantined (paused) since 2026-11-22 03:11:04; "
                f"`virsh destroy {PLAN.uuid}` on hv1"
            ),
        ),
        (
            view(reading=RUNNING, state=SERVED, standby=standby(state="running"), quarantine=HELD),
            Level.ATTENTION,
            "the old primary is running although the standby serves; `virsh destroy",
        ),
        (
            view(reading=SUSPENDED, state=SERVED, standby=standby(state="running")),
            Level.ATTENTION,
            "the old primary is paused although the standby serves; `virsh destroy",
        ),
        (view(standby=standby(121.0)), Level.ATTENTION, "2 min 1 s old, more than 2 min"),
        (
            view(standby=standby(None, detail="no heartbeat has come")),
            Level.ATTENTION,
            "age of its standby is not known",
        ),
        (view(standby=standby(detail="a file went away")), Level.WARNING, "may lack something: a file went away"),
        (view(standby=standby(list_error="dpkg is broken")), Level.WARNING, "exclude list is out of date: dpkg"),
        (
            view(standby=standby(never_sent=("/mnt/data",))),
            Level.WARNING,
            (
                "/mnt/data is mounted in its VM and never sent: its standby lacks what lies only there; have the "
                "service use it elsewhere, such as at /srv/data, mounted or bound there; or, where it can do without, "
                "name it under `sync: {exclude: [...]}`"
            ),
        ),
        (
            view(standby=standby(None, never_sent=("/mnt/a", "/mnt/b", "/media/c"))),
            Level.WARNING,
            (
                "/mnt/a, /mnt/b and /media/c are mounted in its VM and never sent: its standby lacks what lies only "
                "there; have the service use them elsewhere, such as at /srv/a, mounted"
            ),
        ),
        (
            view(
                standby=StandbyView(
                    "unreachable", "sec1 does not know the certificate of this controller", hint="add it there"
                )
            ),
            Level.ATTENTION,
            "does not know the certificate of this controller; add it there; until then nothing can take over",
        ),
        (
            view(reading=CRASHED, state=SERVED, standby=StandbyView("unreachable", "LXD on secondary sec1 hangs")),
            Level.ATTENTION,
            "sec1 hangs; start LXD there: without it its standby, which serves, is not started again",
        ),
        (
            view(standby=StandbyView("missing", "secondary sec1 has no container web")),
            Level.ATTENTION,
            "role `secondary`",
        ),
        (view(names=(NameView("a.b", ("10.9.9.9",), ("10.10.0.10",)),)), Level.ATTENTION, "a.b points at 10.9.9.9"),
        (
            view(course=DOWN),
            Level.ATTENTION,
            "down since 2026-11-22 03:07:04: the primary does not answer: 10.10.0.10:443: connection refused",
        ),
        (
            view(reading=CRASHED, state=UNDER_MAINTENANCE),
            Level.ATTENTION,
            "the primary is shutoff (crashed): down, and automatic failover is suspended",
        ),
        (
            view(reading=CRASHED, state=SERVED, standby=standby(state="running"), course=DOWN),
            Level.ATTENTION,
            "the standby does not answer: 10.10.0.10:443: connection refused; `vcrecovery failover web` brings it up",
        ),
        (
            view(state=ServiceState("web", suspension=Suspension(NOW - 9, None, "x"))),
            Level.WARNING,
            "until further notice (x)",
        ),
        (view(state=ServiceState("web", open_episode=STOPPED)), Level.ATTENTION, "epoch 3 is not finished"),
        (
            view(state=ServiceState("web", open_episode=OPEN), holder="process 1"),
            Level.WARNING,
            "failing over (epoch 3) for",
        ),
    ],
)
def test_findings(seen: ServiceView, level: Level, said: str) -> None:
    found = {str(finding): finding.level for finding in findings(seen)}
    matching = [of for text, of in found.items() if said in text]
    assert matching == [level], found
    assert all(text.startswith("web: ") for text in found)


def test_what_is_never_sent_degrades_the_protection_of_a_primary_that_serves() -> None:
    seen = view(standby=standby(never_sent=("/mnt/data",)))
    assert protection(seen) == Protected(
        Protection.DEGRADED,
        "/mnt/data is mounted in its VM and never sent: its standby lacks what lies only there",
    )
    served = view(reading=CRASHED, state=SERVED, standby=standby(state="running", never_sent=("/mnt/data",)))
    assert not any("/mnt/data" in str(finding) for finding in findings(served))


def test_a_pause_that_is_over_is_no_finding() -> None:
    assert findings(view(state=ServiceState("web", suspension=Suspension(NOW - 99, NOW - 1, "x")))) == []


def test_every_kind_of_verdict_but_healthy_is_said() -> None:
    """Also those that a later version adds."""
    for kind in Kind:
        if kind in (Kind.HEALTHY, Kind.SUSPENDED):
            continue
        seen = view(course=DOWN)
        assert findings(replace(seen, verdict=replace(seen.verdict, kind=kind))), kind


def test_what_is_urgent_comes_first() -> None:
    levels = [finding.level for finding in all_findings(many())]
    assert levels == sorted(levels, key=lambda level: level is not Level.ATTENTION)
    assert exit_code(all_findings(many())) is ExitCode.ATTENTION
    assert exit_code(findings(many()[-1])) is ExitCode.WARNING


def test_hostile_strings_reach_no_terminal() -> None:
    """Reasons come from operators, guests and servers."""
    state = ServiceState(
        "web", open_episode=replace(STOPPED, cause=HOSTILE), suspension=Suspension(NOW - 1, None, HOSTILE)
    )
    evil = view(
        reading=DomainReading(Power.UNREACHABLE, detail=HOSTILE),
        state=state,
        standby=standby(detail=HOSTILE, list_error=HOSTILE, never_sent=(HOSTILE,)),
        names=(NameView("a.b", (HOSTILE,), ("10.10.0.10",)),),
        last=replace(REFUSED, reason=HOSTILE),
    )
    record = step(Step.CONFIRM, 0, 1, why=HOSTILE, summary=HOSTILE, strange={HOSTILE: [HOSTILE]})
    failed = step(Step.FENCE, 1, 2, ok=False, why=HOSTILE, error=HOSTILE)
    closed = replace(REFUSED, cause=HOSTILE, reason=HOSTILE, steps=(record, failed))
    shown = [
        *status.table([evil]),
        *status.table([evil], width=40),
        *status.detail(evil),
        *status.detail(evil, width=40),
        *explain.lines(closed, POLICY, NOW),
        *explain.lines(replace(closed, outcome=None, closed_at=None), POLICY, NOW, width=40),
        *of_episode(closed),
        *(str(finding) for finding in findings(evil)),
    ]
    assert len(shown) > 30
    for line in shown:
        assert line.isprintable(), repr(line)
    assert any("\\x1b" in line for line in shown)


def test_evidence_that_nobody_knows_is_shown_under_its_own_name() -> None:
    found = dict(
        evidence.lines({"some_new_key": [1, "two"], "nested": {"a": None, "b": 1.5}, "empty": "", "no": False})
    )
    assert found == {"some new key": "1, two", "nested": "a: None; b: 1.5"}


def test_evidence_of_the_wrong_kind_does_no_harm() -> None:
    assert dict(evidence.lines({"freshness": "not a number", "cpu": []})) == {"standby's files": "not a number"}


def test_the_parts_of_a_failover_are_all_of_its_time() -> None:
    for episode, end in ((DONE, 4.701), (STOPPED, 100.0), (REFUSED, 0.22), (OPEN, 100.0)):
        found = explain.parts(episode, NOW + 100)
        assert sum(part.seconds for part in found) == pytest.approx(end)
        assert sum(seconds for _, seconds in explain.shares(found)) == pytest.approx(end)


def test_an_explanation_survives_evidence_that_the_core_cannot_use() -> None:
    broken = replace(OPEN, steps=(step(Step.CONFIRM, 0, 1, power="on fire"),))
    decision = explain.next_decision(broken, POLICY, NOW + 2)
    assert isinstance(decision, Run)
    assert decision.step is Step.CONFIRM  # once more: it proves nothing
    assert any("on fire" in line for line in explain.lines(broken, POLICY, NOW + 2))


def test_a_refusal_says_its_way_out() -> None:
    assert any("`vcrecovery failover web --force`" in line for line in explain.lines(REFUSED, POLICY, NOW + 9))
    # With another plan since, the core would say something else: then nothing is said.
    text = "\n".join(explain.lines(REFUSED, Policy(max_staleness=9999), NOW + 9))
    assert "--force`" not in text


def withdrawn(tries: int) -> Episode:
    """A cut network that the fence does not cross, and that is back in the end."""
    away: dict[str, Any] = {
        "power": "unreachable",
        "open_ports": [],
        "fence_command": True,
        "summary": "hv1: unreachable",
    }
    error = "hypervisor hv1 was not fenced: power-off failed with status 1: no route to the BMC"
    steps: list[StepRecord] = []
    for number in range(tries):
        at = 33.0 * number
        why = "not proved yet: fencing the primary again" if number else "failure confirmed: fencing the primary"
        steps += [
            step(Step.CONFIRM, at, at + 0.9, True, "asking for a second signal", **away),
            step(Step.FENCE, at + 0.901, at + 3, False, why, error=error),
        ]
    end = 33.0 * tries
    back: dict[str, Any] = {"power": "running", "open_ports": ["10.10.0.10:80"], "summary": "hv1: running"}
    steps.append(step(Step.CONFIRM, end, end + 0.2, True, "looking first whether the primary serves", **back))
    request = Request(automatic=True, by="watch", symptom=Symptom.HOST)
    episode = Episode(9, "web", 9, "hypervisor hv1 does not answer", request, NOW, tuple(steps))
    decision = decide(episode, POLICY, NOW + end + 0.2)
    assert isinstance(decision, Close)
    return replace(episode, closed_at=NOW + end + 0.2, outcome=decision.outcome, reason=decision.sentence)


def test_a_fence_that_was_tried_for_hours_is_told_in_a_few_lines() -> None:
    episode = withdrawn(tries=300)
    explained = explain.lines(episode, POLICY, NOW)
    assert len(explained) < 50
    assert sum("298 times more the same" in line for line in explained) == 1
    assert sum("298 times more the same" in line for line in of_episode(episode)) == 1
    assert any(line.startswith("  to do     see why the fence did not work") for line in explained)
    # Nothing is left out of what comes seldom.
    assert not any("times more" in line for line in explain.lines(withdrawn(tries=3), POLICY, NOW))


def test_the_outcomes_all_have_a_headline() -> None:
    for outcome in Outcome:
        first, *_ = explain.lines(replace(DONE, outcome=outcome), POLICY, NOW)
        assert outcome.value in first


def test_a_frame_that_differs_only_in_ages_is_the_same() -> None:
    assert status.fingerprint(view()) == status.fingerprint(replace(view(standby=standby(6.0)), at=NOW + 1))
    assert status.fingerprint(view()) != status.fingerprint(view(standby=standby(121.0)))
    assert status.fingerprint(view()) != status.fingerprint(view(reading=CRASHED))


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.2, "0 s"), (59.6, "1 min"), (61, "1 min 1 s"), (7500, "2 h 5 min"), (90000, "1 d 1 h"), (-3, "0 s")],
)
def test_spans(seconds: float, said: str) -> None:
    assert span(seconds) == said


def test_texts() -> None:
    assert plain("a\tb\x7f\u2028\U000e0001 c") == "a\\x09b\\x7f\\u2028\\U000e0001 c"
    assert cut("日本語のサービス", 9) == "日本語..."
    assert cells("日本") == 4
    assert wrapped("  a  ", "one two three four five", 16) == ["  a  one two", "     three four", "     five"]


@pytest.mark.parametrize(
    ("said", "at"),
    [("2h", NOW - 7200), ("3d", NOW - 3 * 86400), ("2026-11-22", NOW - 11524), ("2026-11-22T04:00+01:00", NOW - 724)],
)
def test_since(said: str, at: float) -> None:
    assert moment(said, NOW) == at


def test_a_clock_that_was_set_back_gives_no_time_that_cannot_be() -> None:
    episode = replace(DONE, closed_at=NOW - 3600)
    shown = [*explain.lines(episode, Policy(), NOW), *status.detail(view(done=episode))]
    said = [line for line in shown if "the clock was set back" in line]
    assert len(said) == 2, shown
    assert not any("after -" in line or "in -" in line for line in shown)
