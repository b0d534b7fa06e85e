"""What counts as a failure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vcrecovery.core.cpu import SeenSymptom
from vcrecovery.core.episode import Episode, Request, Symptom
from vcrecovery.core.power import Power
from vcrecovery.core.service_state import ServiceState, Side, Suspension
from vcrecovery.core.sighting import Sighting
from vcrecovery.core.verdict import Circumstances, Kind, Verdict, failed_hosts, judge

SEEN = ServiceState("web", seen_running_at=1.0)
NOW = 100.0


@pytest.mark.parametrize(
    ("power", "reason", "kind"),
    [
        (Power.RUNNING, "", Kind.HEALTHY),
        (Power.PAUSED, "", Kind.HEALTHY),
        (Power.SHUTOFF, "crashed", Kind.FAILED),
        (Power.SHUTOFF, "failed", Kind.FAILED),
        (Power.SHUTOFF, "daemon", Kind.FAILED),
        (Power.CRASHED, "", Kind.FAILED),
        (Power.ABSENT, "failed", Kind.FAILED),
        (Power.SHUTOFF, "destroyed", Kind.INTENDED),
        (Power.SHUTOFF, "shutdown", Kind.INTENDED),
        (Power.SHUTOFF, "migrated", Kind.UNKNOWN),
        (Power.SHUTOFF, "saved", Kind.INTENDED),
        (Power.SHUTOFF, "", Kind.UNKNOWN),
        (Power.ABSENT, "", Kind.UNKNOWN),
        (Power.UNREACHABLE, "", Kind.UNKNOWN),
    ],
)
def test_libvirts_word_decides(power: Power, reason: str, kind: Kind) -> None:
    assert judge(SEEN, power, reason, NOW).kind is kind


@pytest.mark.parametrize(
    ("symptom", "what"), [(Symptom.CPU_ZERO, "it uses no CPU"), (Symptom.CPU_HIGH, "it uses all its CPU")]
)
def test_a_vm_that_hangs_is_said_to_by_its_cpu(symptom: Symptom, what: str) -> None:
    seen = SeenSymptom(symptom, "has used 0 % of its CPU for 60 s", ())
    found = judge(SEEN, Power.RUNNING, "", NOW, also=Circumstances(seen))
    assert found.sentence == "web: the primary has used 0 % of its CPU for 60 s, and no port answers: it hangs"
    assert (found.cause, found.symptom) == (f"the primary hangs: {what}, and no port answers", symptom)


def saw(last: Power, reason: str = "", *, ago: float = 0.0) -> ServiceState:
    return replace(SEEN, seen=Sighting(last, reason, NOW - ago, NOW - ago, "hv1"))


def seen_now(symptom: Symptom, sentence: str, *answering: str) -> Circumstances:
    return Circumstances(SeenSymptom(symptom, sentence, answering))


STOPPED, UNWATCHED = saw(Power.SHUTOFF, "shutdown"), Circumstances(unwatched=True)
#: A failover was withdrawn a moment before.
SERVES = replace(SEEN, side=Side.STANDBY, withdrawn_at=NOW - 1)
WORK = Suspension(since=50.0, until=None, reason="work")
PORTS = ("10.0.0.1:80", "10.0.0.1:443")
AWAY = "web: hypervisor hv1 does not answer"
HANGS = "web: the primary has used no CPU for 60 s, and no port answers: it hangs"
SHUT, SILENT = "web: the primary is shutoff (shutdown)", "web: its hypervisor does not answer"
BEFORE = "it was stopped on request before"
NOT_WATCHED = (
    f"{BEFORE}, but it was not watched since, so it may have been started and failed; if it is "
    "to serve: `vcrecovery failover web`"
)
NOWHERE = (
    "the primary was migrated, and no hypervisor of the plan has it: it is not protected; add the one that has it to "
    "the plan"
)


@pytest.mark.parametrize(
    ("state", "power", "reason", "also", "kind", "sentence"),
    [
        (SEEN, Power.SHUTOFF, "shutdown", None, Kind.INTENDED, f"{SHUT}: requested shutdown, no failure"),
        (STOPPED, Power.SHUTOFF, "", None, Kind.INTENDED, f"web: the primary is shutoff: {BEFORE}, no failure"),
        (STOPPED, Power.UNREACHABLE, "", None, Kind.INTENDED, f"{SILENT}; {BEFORE}, no failure"),
        (SEEN, Power.ABSENT, "", None, Kind.UNKNOWN, "web: its hypervisor does not know the VM: check the plan"),
        (SERVES, Power.SHUTOFF, "destroyed", None, Kind.FAILED_OVER, "web: the standby serves"),
        (
            replace(SERVES, open_episode=Episode(1, "web", 2, "asked", Request(back=True), 50.0)),
            Power.RUNNING,
            "",
            None,
            Kind.FAILED_OVER,
            "web: the standby serves, and its VM is running, to go back to it",
        ),
        (
            SERVES,
            Power.RUNNING,
            "",
            None,
            Kind.STALE_PRIMARY,
            "web: the old primary is running although the standby serves",
        ),
        (
            replace(SERVES, suspension=WORK),
            Power.RUNNING,
            "",
            None,
            Kind.STALE_PRIMARY,
            "web: the old primary is running beside the standby, as suspended",
        ),
        (STOPPED, Power.UNREACHABLE, "", UNWATCHED, Kind.UNKNOWN, f"{SILENT}; {NOT_WATCHED}"),
        (STOPPED, Power.SHUTOFF, "", UNWATCHED, Kind.UNKNOWN, f"web: the primary is shutoff; {NOT_WATCHED}"),
        (saw(Power.SHUTOFF, "migrated"), Power.SHUTOFF, "", None, Kind.HEALTHY, "web: the primary is being migrated"),
        (saw(Power.SHUTOFF, "migrated", ago=15), Power.SHUTOFF, "", None, Kind.UNKNOWN, f"web: {NOWHERE}"),
        (saw(Power.SHUTOFF, "migrated", ago=-1), Power.SHUTOFF, "", None, Kind.UNKNOWN, f"web: {NOWHERE}"),
        (
            SEEN,
            Power.UNREACHABLE,
            "",
            seen_now(Symptom.HOST, "hypervisor hv1 does not answer", *PORTS),
            Kind.UNKNOWN,
            f"{AWAY}, but 10.0.0.1:80, 10.0.0.1:443 answers: no failure",
        ),
        (
            SEEN,
            Power.RUNNING,
            "",
            seen_now(Symptom.CPU_HIGH, "is busy", *PORTS),
            Kind.OVERLOADED,
            "web: the primary is busy, but 10.0.0.1:80, 10.0.0.1:443 answers: overloaded, nothing is moved",
        ),
        (
            replace(SEEN, suspension=WORK),
            Power.RUNNING,
            "",
            seen_now(Symptom.CPU_ZERO, "has used no CPU for 60 s"),
            Kind.SUSPENDED,
            f"{HANGS}: down, and automatic failover is suspended",
        ),
        (
            ServiceState("web"),
            Power.RUNNING,
            "",
            seen_now(Symptom.CPU_ZERO, "has used no CPU for 60 s"),
            Kind.UNKNOWN,
            f"{HANGS}; the primary was never seen running: not a failure yet",
        ),
        (
            replace(SEEN, suspension=WORK),
            Power.SHUTOFF,
            "shutdown",
            None,
            Kind.SUSPENDED,
            f"{SHUT}, and automatic failover is suspended: no failure",
        ),
    ],
)
def test_what_an_operator_reads(
    state: ServiceState, power: Power, reason: str, also: Circumstances | None, kind: Kind, sentence: str
) -> None:
    found = judge(state, power, reason, NOW, also=also or Circumstances())
    assert (found.kind, found.sentence) == (kind, sentence)


def test_why_a_silent_hypervisor_leads_to_a_failover() -> None:
    found = judge(SEEN, Power.UNREACHABLE, "", NOW, also=seen_now(Symptom.HOST, "hypervisor hv1 does not answer"))
    cause = "hypervisor hv1 does not answer, and no port of the primary answers"
    assert found == Verdict(Kind.HOST_SILENT, f"web: {cause}", cause, Symptom.HOST)


def test_a_suspension_keeps_what_was_seen() -> None:
    """For the report: it is down all the same."""
    assert judge(replace(SEEN, suspension=WORK), Power.SHUTOFF, "crashed", NOW).symptom is Symptom.ENDED


def test_a_vm_that_nobody_knows_any_more_is_lost_from_when_that_began() -> None:
    lost = Circumstances(SeenSymptom(Symptom.LOST, "is gone", ()), began_at=70.0)
    ran = replace(SEEN, seen=Sighting(Power.RUNNING, "booted", 60.0, 65.0, "hv1"))
    found = judge(ran, Power.ABSENT, "", NOW, also=lost)
    assert (found.kind, found.symptom, found.began_at) == (Kind.FAILED, Symptom.LOST, 70.0)
    assert found.cause == ("no hypervisor of the plan knows the VM any more, no shutdown was seen, and no port answers")
    answers = replace(lost, seen_symptom=SeenSymptom(Symptom.LOST, "is gone", ("10.0.0.1:80", "10.0.0.1:443")))
    said = "web: no hypervisor of the plan knows the VM any more, but 10.0.0.1:80, 10.0.0.1:443 answers: add the one"
    assert judge(ran, Power.ABSENT, "", NOW, also=answers).sentence == f"{said} that has it to the plan"


def test_a_pause_covers_a_crash_and_ends() -> None:
    paused = replace(SEEN, suspension=Suspension(since=50.0, until=150.0, reason="work"))
    assert judge(paused, Power.SHUTOFF, "crashed", NOW).kind is Kind.SUSPENDED
    assert judge(paused, Power.SHUTOFF, "crashed", 150.0).kind is Kind.FAILED
    forever = replace(SEEN, suspension=Suspension(since=50.0, until=None, reason="work"))
    assert judge(forever, Power.SHUTOFF, "crashed", 1e9).kind is Kind.SUSPENDED


@pytest.mark.parametrize(
    ("power", "reason", "withdrawn_at", "kind"),
    [
        (Power.SHUTOFF, "destroyed", NOW - 59, Kind.FAILED),
        (Power.SHUTOFF, "shutdown", NOW, Kind.FAILED),
        (Power.ABSENT, "destroyed", NOW - 1, Kind.FAILED),
        (Power.SHUTOFF, "destroyed", NOW - 60, Kind.INTENDED),
        # A clock was set back since: how long ago it was, nobody knows.
        (Power.SHUTOFF, "destroyed", NOW + 1, Kind.INTENDED),
        (Power.SHUTOFF, "saved", NOW - 1, Kind.INTENDED),
        (Power.RUNNING, "", NOW - 1, Kind.HEALTHY),
    ],
)
def test_an_end_soon_after_a_withdrawal_may_be_our_own_fence(
    power: Power, reason: str, withdrawn_at: float, kind: Kind
) -> None:
    verdict = judge(replace(SEEN, withdrawn_at=withdrawn_at), power, reason, NOW)
    assert verdict.kind is kind
    assert (verdict.symptom is Symptom.LATE_FENCE) is (kind is Kind.FAILED)


def test_a_primary_that_was_never_seen_running_has_not_failed() -> None:
    assert judge(ServiceState("web"), Power.SHUTOFF, "crashed", NOW).kind is Kind.UNKNOWN


def test_after_a_failover_a_primary_that_runs_again_is_reported() -> None:
    moved = replace(SEEN, side=Side.STANDBY)
    assert judge(moved, Power.SHUTOFF, "crashed", NOW).kind is Kind.FAILED_OVER
    assert judge(moved, Power.RUNNING, "", NOW).kind is Kind.STALE_PRIMARY


@pytest.mark.parametrize(
    ("symptom", "power", "answering", "kind"),
    [
        (Symptom.CPU_ZERO, Power.RUNNING, (), Kind.HUNG),
        (Symptom.CPU_ZERO, Power.RUNNING, ("10.0.0.1:80",), Kind.HEALTHY),
        (Symptom.CPU_ZERO, Power.RUNNING, None, Kind.HEALTHY),
        (Symptom.CPU_HIGH, Power.RUNNING, (), Kind.HUNG),
        (Symptom.CPU_HIGH, Power.RUNNING, ("10.0.0.1:80",), Kind.OVERLOADED),
        (Symptom.CPU_ZERO, Power.PAUSED, (), Kind.HEALTHY),
        (Symptom.CPU_ZERO, Power.UNREACHABLE, (), Kind.UNKNOWN),
        (Symptom.HOST, Power.UNREACHABLE, (), Kind.HOST_SILENT),
        (Symptom.HOST, Power.UNREACHABLE, ("10.0.0.1:80",), Kind.UNKNOWN),
        (Symptom.HOST, Power.UNREACHABLE, None, Kind.UNKNOWN),
        (Symptom.HOST, Power.RUNNING, (), Kind.HEALTHY),
        (Symptom.HOST, Power.SHUTOFF, (), Kind.UNKNOWN),
    ],
)
def test_a_doubt_alone_is_no_failure(
    symptom: Symptom, power: Power, answering: tuple[str, ...] | None, kind: Kind
) -> None:
    verdict = judge(SEEN, power, "", NOW, also=Circumstances(SeenSymptom(symptom, "was seen", answering)))
    assert verdict.kind is kind
    paused = replace(SEEN, suspension=Suspension(since=50.0, until=None, reason="work"))
    assert judge(paused, power, "", NOW, also=Circumstances(SeenSymptom(symptom, "was seen", ()))).kind is not Kind.HUNG


def test_no_second_failover_within_the_cool_down_unless_acknowledged() -> None:
    again = replace(SEEN, failed_over_at=90.0)
    cooling = judge(again, Power.SHUTOFF, "crashed", NOW, cool_down=60.0)
    assert cooling.kind is Kind.COOLING
    assert "vcrecovery acknowledge web" in cooling.sentence
    assert judge(again, Power.SHUTOFF, "crashed", 151.0, cool_down=60.0).kind is Kind.FAILED
    assert judge(again, Power.RUNNING, "", NOW, cool_down=60.0).kind is Kind.HEALTHY
    assert (
        judge(replace(again, acknowledged_at=95.0), Power.SHUTOFF, "crashed", NOW, cool_down=60.0).kind is Kind.FAILED
    )
    # Without a time for it, nothing cools down.
    assert judge(replace(again, failed_over_at=NOW), Power.SHUTOFF, "crashed", NOW).kind is Kind.FAILED
    before = replace(again, acknowledged_at=80.0)
    assert judge(before, Power.SHUTOFF, "crashed", NOW, cool_down=60.0).kind is Kind.COOLING


SITES = {"hv1": "east", "hv2": "east", "hv3": "west"}


@pytest.mark.parametrize(
    ("silent", "failed"),
    [
        ({}, {}),
        ({"hv1": 90.0}, {}),
        ({"hv1": 80.0}, {"hv1": "hypervisor hv1 does not answer"}),
        ({"hv1": NOW - 15.0}, {"hv1": "hypervisor hv1 does not answer"}),
        ({"hv3": 80.0}, {"hv3": "hypervisor hv3 does not answer"}),
        ({"hv1": 80.0, "hv2": 90.0}, {}),  # it may be the whole site: that is known in a moment
        ({"hv1": 80.0, "hv2": 90.0, "hv3": 80.0}, {"hv3": "hypervisor hv3 does not answer"}),
        ({"hv1": 80.0, "hv3": 90.0}, {"hv1": "hypervisor hv1 does not answer"}),
        (
            {"hv1": 80.0, "hv2": 81.0},
            dict.fromkeys(("hv1", "hv2"), "site east has failed: its hypervisors hv1 and hv2 do not answer"),
        ),
    ],
)
def test_a_site_that_fails_is_one_sentence(silent: dict[str, float], failed: dict[str, str]) -> None:
    assert failed_hosts(silent, SITES, 15.0, NOW) == failed
