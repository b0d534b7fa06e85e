"""What the benchmark of recovery makes of its figures; the measuring itself needs three quarters of an hour."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from dataclasses import replace

import pytest

from exclude_bench.command import as_json
from exclude_bench.target import failures
from recovery_bench.answers import DATABASE, Watch, at
from recovery_bench.boots import read_boot
from recovery_bench.results import Measured, Results, targets, text
from recovery_bench.rounds import WAYS, Took, Way, compare, order
from recovery_bench.scale import QUICK
from recovery_bench.stage_containers import Recovery, both
from recovery_bench.stage_vms import VmRecovery

STEPS = {"confirm": 1.0, "start": 2.0, "restore": 0.0}
SHOWN = """\
UserspaceTimestampMonotonic=2000000
InactiveExitTimestampMonotonic=8000000
ActiveEnterTimestampMonotonic=9500000
"""
BOOT = read_boot(lambda _: SHOWN, 80, 12.0)
SILENT = Took(None, "web1 did not answer within 900 s")
SCALE = replace(QUICK, rounds=2, needed=2)


def a_round(
    booted: Took | None = None, cold: tuple[Took, Took] | None = None, frozen: tuple[Took, Took] | None = None
) -> Measured:
    vms = {Way.BOOTED: booted or Took(100.0), Way.RESUMED: Took(4.0), Way.RESTORED: Took(8.0)}
    containers = {
        Way.COLD: cold or (Took(20.0), Took(24.0)),
        Way.FROZEN: frozen or (Took(2.0), Took(3.0)),
        Way.HOT: (Took(0.01), Took(1.0)),
    }
    boots = {"web1": BOOT}
    return Measured(
        {way: VmRecovery(took, boots) for way, took in vms.items()},
        {way: Recovery(answered, ended, STEPS, boots) for way, (answered, ended) in containers.items()},
    )


def results(rounds: Sequence[Measured]) -> Results:
    return Results(SCALE, 0.5, "qemu", rounds, [], targets(SCALE, rounds, []))


def test_every_way_is_once_the_first_and_once_at_every_place() -> None:
    rounds = [order(number) for number in range(len(WAYS))]
    for ways in (*rounds, *zip(*rounds, strict=True)):
        assert sorted(ways) == sorted(WAYS)


def test_ratios_are_taken_round_by_round_and_of_the_medians() -> None:
    rounds = [{Way.COLD: Took(ours), Way.BOOTED: Took(theirs)} for ours, theirs in ((10, 50), (30, 60), (16, 100))]
    found = compare(rounds, Way.COLD, Way.BOOTED)
    assert found.ratios == pytest.approx([0.2, 0.5, 0.16])
    assert found.median_of_ratios == pytest.approx(0.2)
    assert found.ratio_of_medians == pytest.approx(16 / 60)
    # A limit has to hold for both.
    assert found.judged(3) == pytest.approx(16 / 60)
    swapped = compare([{Way.COLD: e[Way.BOOTED], Way.BOOTED: e[Way.COLD]} for e in rounds], Way.COLD, Way.BOOTED)
    assert swapped.judged(3) == pytest.approx(5.0)


@pytest.mark.parametrize("silent", [Way.COLD, Way.BOOTED])
def test_a_side_that_never_answers_voids_the_round_by_name(silent: Way) -> None:
    answered = {Way.COLD: Took(10.0), Way.BOOTED: Took(40.0)}
    found = compare([answered, {**answered, silent: SILENT}, answered], Way.COLD, Way.BOOTED)
    assert found.ratios == [0.25, 0.25]
    assert found.void == [f"round 2: {silent}: web1 did not answer within 900 s"]
    assert found.judged(2) == 0.25
    assert found.judged(3) is None


def test_a_comparison_without_rounds_has_no_ratio() -> None:
    found = compare([{Way.COLD: SILENT, Way.BOOTED: SILENT}], Way.COLD, Way.BOOTED)
    assert (found.median_of_ratios, found.ratio_of_medians, found.judged(0)) == (None, None, None)
    assert "cold containers: web1" in found.void[0]
    assert "booted VMs: web1" in found.void[0]


def test_nothing_is_compared_with_what_took_no_time() -> None:
    found = compare([{Way.COLD: Took(1.0), Way.BOOTED: Took(0.0)}], Way.COLD, Way.BOOTED)
    assert (found.judged(1), found.void) == (None, ["round 1: booted VMs: no time passed"])


def test_the_verdicts_of_rounds_in_which_all_answered() -> None:
    found = results([a_round(), a_round(cold=(Took(28.0), Took(30.0)))])
    measured = [round(target.measured or 0.0, 3) for target in found.targets]
    assert measured == [0.24, 0.27, 0.02, 0.03, 0.5, 0.75]
    assert [target.met for target in found.targets] == [True, False, True, True, True, True]
    assert failures(found.targets) == []
    shown = text(found)
    assert "MISSED by 0.02" in shown
    assert "void" not in shown.lower()
    assert [target["met"] for target in json.loads(as_json(found))["targets"]] == [True, False, True, True, True, True]


def test_a_vm_that_never_answers_meets_nothing_and_fails_the_benchmark() -> None:
    found = results([a_round(), a_round(booted=SILENT)])
    of_booted, of_resumed = found.targets[:4], found.targets[4:]
    assert not any(target.met for target in of_booted)
    assert all(target.met for target in of_resumed)
    assert len(failures(found.targets)) == 4
    why = "VOID: 1 of 2 rounds are left, 2 are needed; round 2: booted VMs: web1 did not answer within 900 s"
    assert {target.verdict for target in of_booted} == {why}
    shown = text(found)
    assert why in shown
    assert "Without an answer" in shown
    assert json.loads(as_json(found))["targets"][0]["measured"] is None


def test_a_container_that_never_answers_voids_what_it_takes_part_in() -> None:
    ended = both(SILENT, Took(None, "vcrecovery failover --group shop: no port answers"))
    found = results([a_round(frozen=(SILENT, ended)), a_round(frozen=(SILENT, ended))])
    assert [target.void for target in found.targets] == [False, False, True, True, True, True]
    assert "no port answers" in text(found)


def test_a_command_that_fails_voids_its_end_although_all_answered() -> None:
    failed = both(Took(2.0), Took(None, "vcrecovery failover --group shop: DNS"))
    found = results([a_round(cold=(Took(2.0), failed)), a_round(cold=(Took(2.0), failed))])
    assert [target.void for target in found.targets][:2] == [False, True]


def test_the_end_is_the_later_of_command_and_answers() -> None:
    assert both(Took(2.0), Took(3.0)) == both(Took(3.0), Took(2.0)) == Took(3.0)


def test_what_differs_between_the_two_sides_is_said() -> None:
    shown = text(results([a_round(), a_round()]))
    assert "without a controller" in shown
    assert "Neither detection nor DNS is in these figures" in shown


def test_whoever_does_not_answer_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    took = Watch(at({"db1": ("127.0.0.1", port), "web1": ("127.0.0.1", port)}), 0.2).took()
    assert took == Took(None, "db1, web1 did not answer within 0.2 s")


def test_the_parts_of_a_boot_add_up() -> None:
    boot = read_boot(lambda _: SHOWN, DATABASE, 12.0)
    assert (boot.before, boot.systemd, boot.service) == pytest.approx((4.5, 6.0, 1.5))
