"""libvirt's whole table of states and reasons, and every pair of what was seen last and what is seen now."""

from __future__ import annotations

from dataclasses import replace

import libvirt
import pytest

from vcrecovery.core.episode import Symptom
from vcrecovery.core.meaning import ENDS, MEANINGS, TELLING, End, Meaning, end_of, meaning_of
from vcrecovery.core.power import Power
from vcrecovery.core.service_state import ServiceState
from vcrecovery.core.sighting import Sighting
from vcrecovery.core.verdict import FAILURES, Circumstances, Kind, judge
from vcrecovery.drivers.libvirt.readings import POWER, REASON, STOPPED, reason_of

#: libvirt's constants of reasons begin with these; the others of those names belong to other calls.
REASONS = {
    "VIR_DOMAIN_RUNNING_": libvirt.VIR_DOMAIN_RUNNING,
    "VIR_DOMAIN_PAUSED_": libvirt.VIR_DOMAIN_PAUSED,
    "VIR_DOMAIN_SHUTOFF_": libvirt.VIR_DOMAIN_SHUTOFF,
    "VIR_DOMAIN_CRASHED_": libvirt.VIR_DOMAIN_CRASHED,
}
#: They change nothing about what is done, so they have no word.
WITHOUT_A_WORD = {"VIR_DOMAIN_PAUSED_UNKNOWN", "VIR_DOMAIN_PAUSED_USER", "VIR_DOMAIN_SHUTOFF_UNKNOWN"}
NOW = 1000.0


def seen(meaning: Meaning | None, at: float = 900.0) -> ServiceState:
    """A service whose primary was last seen so."""
    state = ServiceState("web", seen_running_at=1.0)
    if meaning is None:
        return state
    power, reason = next(pair for pair, entry in MEANINGS.items() if entry.meaning is meaning)
    return replace(state, seen=Sighting(power, reason, at, at, "hv1"))


@pytest.mark.parametrize("prefix", REASONS)
def test_every_reason_of_libvirt_has_its_place(prefix: str) -> None:
    state = REASONS[prefix]
    names = [name for name in dir(libvirt) if name.startswith(prefix) and not name.endswith("_LAST")]
    assert names
    for name in names:
        word = reason_of(state, getattr(libvirt, name))
        if state == libvirt.VIR_DOMAIN_RUNNING or name in WITHOUT_A_WORD or name.endswith("_UNKNOWN"):
            assert word == "", name
        else:
            assert word, name
        assert (POWER[state], word) in MEANINGS, name


def test_every_word_of_the_driver_is_in_the_table() -> None:
    for state, words in REASON.items():
        for word in words.values():
            assert (POWER[state], word) in MEANINGS
    for word in STOPPED.values():
        assert (Power.ABSENT, word) in MEANINGS
    assert meaning_of(POWER[libvirt.VIR_DOMAIN_SHUTDOWN], reason_of(libvirt.VIR_DOMAIN_SHUTDOWN, 1)) is Meaning.STOPPING
    asleep = reason_of(libvirt.VIR_DOMAIN_PMSUSPENDED, 0)
    assert meaning_of(POWER[libvirt.VIR_DOMAIN_PMSUSPENDED], asleep) is Meaning.SUSPENDED


def test_a_reason_that_a_newer_libvirt_has_is_no_intention() -> None:
    assert reason_of(libvirt.VIR_DOMAIN_SHUTOFF, 99) == ""
    assert meaning_of(Power.SHUTOFF, reason_of(libvirt.VIR_DOMAIN_SHUTOFF, 99)) is Meaning.LOST
    assert meaning_of(Power.PAUSED, reason_of(libvirt.VIR_DOMAIN_PAUSED, 99)) is Meaning.SUSPENDED


@pytest.mark.parametrize("power", Power)
def test_every_state_has_an_entry_for_no_reason(power: Power) -> None:
    assert (power, "") in MEANINGS


#: What must come of a pair, where the pair is about a service that serves, or that somebody has stopped.
BY_HAND: dict[tuple[Meaning | None, Meaning], End] = {
    (Meaning.RUNS, Meaning.LOST): End.FAILED,
    (Meaning.RUNS, Meaning.DIED): End.FAILED,
    (Meaning.RUNS, Meaning.GONE): End.FAILED,
    (Meaning.RUNS, Meaning.STOPPED): End.INTENDED,
    (Meaning.RUNS, Meaning.STALLED): End.STALLED,
    (Meaning.RUNS, Meaning.SUSPENDED): End.PAUSED,
    (Meaning.RUNS, Meaning.SILENT): End.SILENT,
    (Meaning.RUNS, Meaning.MIGRATED): End.ELSEWHERE,
    (Meaning.STOPPED, Meaning.LOST): End.INTENDED,
    (Meaning.STOPPED, Meaning.SILENT): End.INTENDED,
    (Meaning.STOPPED, Meaning.NOT_STARTED): End.UNKNOWN,
    (Meaning.STOPPED, Meaning.DIED): End.FAILED,
    (Meaning.STOPPING, Meaning.LOST): End.INTENDED,
    (Meaning.STOPPING, Meaning.DIED): End.INTENDED,
    (Meaning.STOPPING, Meaning.SILENT): End.INTENDED,
    (Meaning.DIED, Meaning.LOST): End.FAILED,
    (Meaning.DIED, Meaning.NOT_STARTED): End.FAILED,
    (Meaning.SUSPENDED, Meaning.LOST): End.FAILED,
    (Meaning.STALLED, Meaning.LOST): End.FAILED,
    (Meaning.MIGRATED, Meaning.LOST): End.ELSEWHERE,
    (Meaning.MIGRATED, Meaning.SILENT): End.ELSEWHERE,
    (None, Meaning.LOST): End.UNKNOWN,
    (None, Meaning.GONE): End.UNKNOWN,
}
#: No failure, whatever else is seen.
LEFT_ALONE = {End.ALIVE, End.PAUSED, End.INTENDED, End.ELSEWHERE, End.UNKNOWN}


@pytest.mark.parametrize("now", Meaning)
@pytest.mark.parametrize("last", [None, *sorted(TELLING)])
def test_every_pair_comes_to_something(last: Meaning | None, now: Meaning) -> None:
    """And the verdict is the one that the table says."""
    end, why = end_of(last, now)
    assert why
    assert end is BY_HAND.get((last, now), end)
    power, reason = next(pair for pair, entry in MEANINGS.items() if entry.meaning is now)
    verdict = judge(seen(last), power, reason, NOW)
    if end in LEFT_ALONE:
        assert verdict.kind not in FAILURES
    elif end is End.FAILED and now is not Meaning.GONE:
        assert verdict.kind is Kind.FAILED
    assert "somebody" not in verdict.sentence or now is Meaning.NOT_STARTED
    assert verdict.sentence.startswith("web: ")


def test_the_tables_are_whole() -> None:
    assert set(ENDS) == set(Meaning)
    assert {entry.meaning for entry in MEANINGS.values()} == set(Meaning)


# -- what else bears on them ---------------------------------------------------------------------------------------


def test_one_that_was_lost_failed_when_it_was_last_seen_running() -> None:
    verdict = judge(seen(Meaning.RUNS), Power.SHUTOFF, "", NOW, also=Circumstances(began_at=700.0))
    assert (verdict.kind, verdict.symptom, verdict.began_at) == (Kind.FAILED, Symptom.LOST, 700.0)


@pytest.mark.parametrize(("power", "reason"), [(Power.SHUTOFF, ""), (Power.UNREACHABLE, "")])
def test_an_old_word_that_it_was_stopped_says_little(power: Power, reason: str) -> None:
    """It may have been started since, and have failed."""
    verdict = judge(seen(Meaning.STOPPED), power, reason, NOW, also=Circumstances(unwatched=True))
    assert verdict.kind is Kind.UNKNOWN
    assert "it was not watched since" in verdict.sentence
    assert judge(seen(Meaning.STOPPED), power, reason, NOW).kind is Kind.INTENDED


def test_its_hypervisor_gets_time_to_start_it() -> None:
    state = seen(Meaning.RUNS)
    assert judge(state, Power.SHUTOFF, "", NOW, also=Circumstances(starting="autostart")).kind is Kind.STARTING
    # Of one whose end is known nobody waits for that.
    also = Circumstances(starting="autostart")
    assert judge(state, Power.SHUTOFF, "crashed", NOW, also=also).kind is Kind.FAILED


def test_one_that_a_fault_has_paused_fails_after_a_while() -> None:
    state = seen(Meaning.STALLED)
    soon = judge(state, Power.PAUSED, "I/O error", NOW, also=Circumstances(stalled=29.9))
    assert (soon.kind, soon.cause) == (Kind.STALLED, "")
    late = judge(state, Power.PAUSED, "I/O error", NOW, also=Circumstances(stalled=30.0))
    assert (late.kind, late.symptom, late.began_at) == (Kind.FAILED, Symptom.STALLED, 970.0)
    assert "libvirt: paused (I/O error) for 30 s, and it was not resumed" in late.cause


@pytest.mark.parametrize("reason", ["", "migration", "snapshot", "dump", "post-copy", "suspended by the guest"])
def test_one_that_is_paused_on_request_never_does(reason: str) -> None:
    verdict = judge(seen(Meaning.SUSPENDED), Power.PAUSED, reason, NOW, also=Circumstances(stalled=1e6))
    assert verdict.kind is Kind.HEALTHY


def test_one_that_nobody_has_fails_only_when_no_port_answers() -> None:
    from vcrecovery.core.cpu import SeenSymptom

    def with_ports(answering: tuple[str, ...] | None) -> Kind:
        seen_symptom = SeenSymptom(Symptom.LOST, "", answering)
        return judge(seen(Meaning.RUNS), Power.ABSENT, "", NOW, also=Circumstances(seen_symptom)).kind

    assert with_ports(None) is Kind.UNKNOWN
    assert with_ports(("10.0.0.1:80",)) is Kind.UNKNOWN
    assert with_ports(()) is Kind.FAILED


def test_one_that_may_be_on_a_silent_hypervisor_is_not_given_up() -> None:
    also = Circumstances(maybe_on=("hv2",))
    verdict = judge(seen(Meaning.RUNS), Power.SHUTOFF, "", NOW, also=also)
    assert verdict.kind is Kind.UNKNOWN
    assert "may have been moved to hv2 unseen, which does not answer" in verdict.sentence


def test_a_migration_under_way_is_nothing_to_report() -> None:
    state = seen(Meaning.MIGRATED, at=NOW - 14.0)
    assert judge(state, Power.SHUTOFF, "migrated", NOW).kind is Kind.HEALTHY
    late = judge(state, Power.SHUTOFF, "migrated", NOW + 1.0)
    assert late.kind is Kind.UNKNOWN
    assert "it is not protected" in late.sentence


def test_one_that_runs_twice_is_reported() -> None:
    verdict = judge(seen(Meaning.RUNS), Power.RUNNING, "", NOW, also=Circumstances(runs_on=("hv1", "hv2")))
    assert verdict.kind is Kind.UNKNOWN
    assert "runs on hv1 and hv2 at the same time" in verdict.sentence
