"""What the benchmark of moves says of its figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from move_bench.__main__ import bytes_received
from move_bench.client import Asked
from move_bench.results import Missing, Moved, ratios, targets, text
from move_bench.ways import STATEFUL, STOPPED, WARM
from move_results import results


def test_a_miss_is_a_miss_and_too_few_rounds_are_none() -> None:
    down, ratio, kept, broken = results().targets
    assert (kept.void, broken.void) == (True, True)
    assert (down.shown, down.verdict) == ("1.3 s", "MISSED by 0.3 s")
    assert ratio.met
    assert round(ratio.measured or 0, 1) == 13.8
    assert [target.void for target in results((1.2, None, 1.4)).targets] == [True] * 4
    assert "vcrecovery move" in text(results())


def test_a_way_that_was_not_measured_is_named_and_void() -> None:
    rounds = [{WARM: Moved(20.0, 1.0)}, *results().rounds]
    found = replace(
        results(),
        rounds=rounds,
        targets=targets(results().scale, rounds),
        missing=[Missing(1, STOPPED, "LXD: no"), *(Missing(n, STATEFUL, "criu: no") for n in range(1, 5))],
        vms="qemu",
    )
    said = [" ".join(line.split()) for line in text(found).splitlines()]
    assert said[0].startswith("A container of 900 MB (64 MB of memory) moves between two VMs while it serves, 4 rounds")
    assert f"1 {STOPPED} LXD: no" in said
    assert f"4 {STATEFUL} criu: no" in said
    assert f"{STATEFUL} none none none" in said
    assert [target.void for target in found.targets] == [False, False, True, True]
    assert "Not measured" not in text(results())


def test_ratios_are_of_the_rounds_that_have_both() -> None:
    rounds = [*results((1.0, 2.0)).rounds, {WARM: Moved(1.0, 1.0)}, {STOPPED: Moved(9.0, 9.0)}]
    assert ratios(rounds, STOPPED) == [18.0, 9.0]
    assert "13.50 (9.00 to 18.00)" in text(replace(results(), rounds=rounds))


def test_only_what_comes_in_on_the_card_is_counted(tmp_path: Path) -> None:
    table = tmp_path / "dev"
    table.write_text("Inter-| Receive\n face |bytes\n  lo: 10 1 0\nvnet1: 30 2 0\nvnet12:\t50 3 0\n")
    assert bytes_received("vnet1", table) == 30


def test_where_its_address_stays_it_is_down_between_two_answers() -> None:
    assert Asked({"kept": [1.0, 1.5, 4.0]}).longest_gap("kept") == 2.5
    assert Asked({"kept": [1.0]}).longest_gap("kept") is None


def test_it_is_down_from_the_last_answer_there_to_the_first_one_here() -> None:
    assert Asked({"old": [1.0, 2.0], "new": [3.5, 4.0]}).interruption("old", "new") == 1.5
    assert Asked({"old": [1.0], "new": []}).interruption("old", "new") is None


def test_a_question_is_lost_that_nobody_answers_before_the_new_place_does() -> None:
    asked = Asked({"old": [1.0], "new": [3.0]}, {"old": [1.5, 2.0, 3.5], "new": [0.5]})
    assert asked.lost_meanwhile("old", "new") == 2
    assert Asked({"old": [1.0], "new": []}, {"old": [1.5], "new": []}).lost_meanwhile("old", "new") == 1
