"""Right before a hypervisor is powered off: what must not answer, and how long libvirt is waited for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from vcrecovery.core.decisions import Blocked, Close
from vcrecovery.core.episode import Episode, Outcome, Request, Step, StepRecord, Symptom
from vcrecovery.core.evidence import Confirmation, Failed, Fenced
from vcrecovery.core.fencing import (
    Silent,
    must_be_silent,
    must_look_again,
    not_again,
    not_to_be_powered_off,
    ran_when_seen_last,
    served_just_now,
    waited_for_libvirt,
)
from vcrecovery.core.policy import Policy
from vcrecovery.core.power import Power

NOW = 1000.0
AWAY, RUNS, OFF = (Power.UNREACHABLE, Power.RUNNING, Power.SHUTOFF)
TRIED = StepRecord(Step.FENCE, NOW - 14, NOW - 13, False, Failed("no answer"))
PROVED = StepRecord(Step.FENCE, NOW - 14, NOW - 13, True, Fenced())


def looked(power: Power, ago: float) -> StepRecord:
    return StepRecord(Step.CONFIRM, NOW - ago, NOW - ago, True, Confirmation(power))


def episode(*steps: StepRecord, force: bool = False) -> Episode:
    return Episode(1, "web", 1, "hv1 does not answer", Request(force=force), NOW - 20, steps)


@pytest.mark.parametrize(
    ("steps", "force", "silent"),
    [
        # Asked just now, by the confirmation that the fence rests on.
        ([looked(AWAY, 0)], False, Silent.NOTHING),
        ([looked(AWAY, 3)], False, Silent.NOTHING),
        ([looked(AWAY, 3.1)], False, Silent.PRIMARY_TOO),
        # A clock that was set back: how long ago it was, nobody knows.
        ([looked(AWAY, -1)], False, Silent.PRIMARY_TOO),
        # Nobody has looked.
        ([], False, Silent.PRIMARY_TOO),
        # libvirt went away since: the hypervisor was no question then.
        ([looked(OFF, 1)], False, Silent.PRIMARY_TOO),
        ([looked(OFF, 15), TRIED, looked(RUNS, 1)], False, Silent.PRIMARY_TOO),
        # The operator knew that libvirt was away, or did not.
        ([looked(AWAY, 9)], True, Silent.NOTHING),
        ([looked(OFF, 9)], True, Silent.NEIGHBOURS),
        # It was proved off: what answers there now must not.
        ([looked(AWAY, 15), PROVED], False, Silent.NEIGHBOURS),
        ([looked(AWAY, 1), PROVED], False, Silent.NEIGHBOURS),
    ],
)
def test_what_must_be_silent(steps: list[StepRecord], force: bool, silent: Silent) -> None:
    assert must_be_silent(episode(*steps, force=force), NOW) is silent


@pytest.mark.parametrize(
    ("steps", "waited"),
    [
        ([looked(AWAY, 1)], True),
        ([looked(OFF, 1)], False),
        ([looked(OFF, 15), TRIED, looked(AWAY, 1)], False),  # 14 s
        ([looked(OFF, 16), StepRecord(Step.FENCE, NOW - 15, NOW - 14, False, Failed("no"))], True),
        # From the first try on.
        ([looked(OFF, 16), replace(TRIED, begun_at=NOW - 15), looked(AWAY, 3), replace(TRIED, begun_at=NOW - 2)], True),
        ([looked(AWAY, 15), TRIED, looked(RUNS, 1)], True),
    ],
)
def test_how_long_libvirt_is_waited_for(steps: list[StepRecord], waited: bool) -> None:
    assert waited_for_libvirt(episode(*steps), NOW, 15.0) is waited


@pytest.mark.parametrize(
    ("steps", "force", "again"),
    [
        ([looked(AWAY, 1)], False, True),
        ([looked(AWAY, 1)], True, False),
        ([looked(RUNS, 1)], False, False),
        ([looked(AWAY, 15), PROVED], False, False),
        ([], False, False),
    ],
)
def test_whether_one_that_runs_is_looked_at_again(steps: list[StepRecord], force: bool, again: bool) -> None:
    assert must_look_again(episode(*steps, force=force)) is again


@pytest.mark.parametrize(
    ("ended", "holds"),
    [(NOW, True), (NOW - 60, True), (NOW - 60.1, False), (NOW - 3600, False), (NOW + 1, False), (None, False)],
)
def test_the_fence_of_a_standby_that_has_just_ended_holds(ended: float | None, holds: bool) -> None:
    assert served_just_now(Request(began_at=ended), Policy(fence_valid_for=60.0), NOW) is holds


@pytest.mark.parametrize(
    ("steps", "seconds"),
    [
        ([], 0.0),
        ([looked(RUNS, 5)], 0.0),
        ([looked(RUNS, 25), looked(RUNS, 5)], 20.0),
        ([looked(RUNS, 25), TRIED, looked(RUNS, 5)], 20.0),
        ([looked(RUNS, 45), looked(OFF, 25), looked(RUNS, 15), looked(RUNS, 5)], 10.0),
        ([looked(RUNS, 45), looked(RUNS, 25), looked(AWAY, 5)], 0.0),
        # A look that came to nothing says nothing, and so does one that goes on.
        ([looked(RUNS, 25), StepRecord(Step.CONFIRM, NOW - 9, NOW - 8, False, Failed("no")), looked(RUNS, 5)], 20.0),
        ([looked(RUNS, 25), looked(RUNS, 5), StepRecord(Step.CONFIRM, NOW - 1)], 20.0),
    ],
)
def test_for_how_long_every_look_has_found_it_running(steps: list[StepRecord], seconds: float) -> None:
    assert episode(*steps).seen_running_for == seconds


GONE, NO_LOOK = Power.ABSENT, StepRecord(Step.CONFIRM, NOW - 2, NOW - 1, False, Failed("no"))


@pytest.mark.parametrize(
    ("steps", "ran"),
    [
        ([], False),
        ([looked(GONE, 1)], False),
        ([looked(RUNS, 20), looked(GONE, 1)], True),
        ([looked(Power.PAUSED, 20), looked(AWAY, 9), looked(GONE, 1)], True),
        ([looked(RUNS, 20), looked(OFF, 9), looked(GONE, 1)], False),
        # What was done since, or a look that came to nothing, says nothing of it.
        ([looked(RUNS, 20), PROVED, looked(GONE, 1)], True),
        ([looked(RUNS, 20), PROVED], True),
        ([looked(RUNS, 20), NO_LOOK], True),
    ],
)
def test_whether_it_ran_when_a_hypervisor_had_it_last(steps: list[StepRecord], ran: bool) -> None:
    assert ran_when_seen_last(episode(*steps)) is ran


@pytest.mark.parametrize(
    ("steps", "newest"),
    [
        ([], None),
        ([looked(RUNS, 9)], 0),
        ([looked(RUNS, 20), TRIED], None),
        ([looked(RUNS, 20), TRIED, looked(OFF, 1)], 2),
        ([looked(RUNS, 20), TRIED, looked(OFF, 9), looked(RUNS, 1)], 3),
        ([looked(RUNS, 20), TRIED, looked(OFF, 9), NO_LOOK], None),
    ],
)
def test_only_a_look_after_the_fence_says_what_came_of_it(steps: list[StepRecord], newest: int | None) -> None:
    assert episode(*steps).looked_since_the_fence is (None if newest is None else steps[newest])


TWO, OTHERS = ("10.0.0.1:80", "10.0.0.1:443"), ("shop (10.0.0.2:443)", "mail (10.0.0.3:25)")
BY_WORD = "if you know that the VM is down: `vcrecovery failover web --primary-is-down web`"


def called(**words: Any) -> Episode:
    return replace(episode(), request=Request(**words))


@pytest.mark.parametrize(
    ("saw", "reads"),
    [
        (
            Confirmation(AWAY, fence_command=True, reached=TWO),
            Close(
                Outcome.REFUSED,
                "web still answers on 10.0.0.1:80, 10.0.0.1:443, although its hypervisor does not answer",
                "`vcrecovery failover web --force` powers the hypervisor off and fails over",
            ),
        ),
        (
            Confirmation(AWAY, fence_command=True, neighbours=OTHERS),
            Close(
                Outcome.REFUSED,
                "web cannot be fenced: its hypervisor does not answer, and powering it off would end what still "
                "answers: shop (10.0.0.2:443), mail (10.0.0.3:25)",
                f"fix libvirt there; `vcrecovery failover web --force` powers it off all the same; or, {BY_WORD}",
            ),
        ),
    ],
)
def test_what_an_operator_reads_where_a_hypervisor_is_not_powered_off(saw: Confirmation, reads: Close) -> None:
    assert not_to_be_powered_off(called(automatic=False), saw) == reads


@pytest.mark.parametrize(
    ("saw", "reads"),
    [
        (
            Confirmation(OFF, reached=TWO),
            Blocked(
                Step.FENCE,
                "the primary of web is shutoff on its hypervisor but 10.0.0.1:80, 10.0.0.1:443 answers: it may run "
                "elsewhere",
                f"find out who has its address, or, {BY_WORD}",
            ),
        ),
        (
            Confirmation(AWAY, neighbours=OTHERS),
            Blocked(
                Step.FENCE,
                "web is not fenced now: powering its hypervisor off would end what still answers: "
                "shop (10.0.0.2:443), mail (10.0.0.3:25)",
                "fix libvirt there; `vcrecovery failover web --force` powers the hypervisor off and fails over all "
                f"the same; or, {BY_WORD}",
            ),
        ),
        (
            Confirmation(RUNS, open_ports=TWO),
            Close(
                Outcome.WITHDRAWN,
                "the primary of web serves (running); its fence was never proved",
                "see why the fence did not work, and that the VM still starts with its host (`virsh autostart`)",
            ),
        ),
    ],
)
def test_what_is_read_where_a_fence_is_not_tried_again(saw: Confirmation, reads: Close | Blocked) -> None:
    assert not_again(called(automatic=True), saw, Policy()) == reads


def test_an_automatic_failover_of_a_host_waits_for_its_neighbours() -> None:
    words = Request(automatic=True, symptom=Symptom.HOST)
    found = not_to_be_powered_off(
        replace(episode(), request=words), Confirmation(AWAY, fence_command=True, neighbours=OTHERS[:1])
    )
    said = (
        "web cannot be fenced: its hypervisor does not answer, and powering it off would end what still answers: "
        "shop (10.0.0.2:443)"
    )
    hint = f"fix libvirt there; `vcrecovery failover web --force` powers it off all the same; or, {BY_WORD}"
    assert found == Blocked(Step.CONFIRM, said, hint)


def test_what_destroys_one_that_runs_all_the_same() -> None:
    destroys = "`vcrecovery failover web --force` destroys it and fails over"
    said = "you say that the primary of web is down, but its hypervisor says that it is running"
    by_word = not_again(called(primary_is_down=True), Confirmation(RUNS), Policy())
    assert by_word == Close(Outcome.WITHDRAWN, said, destroys)
    back = replace(called(automatic=True), steps=(looked(AWAY, 9), TRIED, looked(RUNS, 1)))
    said = "the hypervisor of web is back and says that the primary runs, but no port answers yet"
    assert not_again(back, Confirmation(RUNS), Policy(host_silent_for=15.0)) == Blocked(
        Step.FENCE, f"{said}; it is fenced when none has for 15 s", destroys
    )
