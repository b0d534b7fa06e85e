"""What the benchmark of moves says of its figures."""

from __future__ import annotations

from move_bench.client import Asked
from move_bench.results import text
from move_results import results


def test_a_miss_is_a_miss_and_too_few_rounds_are_none() -> None:
    down, ratio, kept, broken = results().targets
    assert (kept.void, broken.void) == (True, True)
    assert (down.shown, down.verdict) == ("1.3 s", "MISSED by 0.3 s")
    assert ratio.met
    assert round(ratio.measured or 0, 1) == 13.8
    assert [target.void for target in results((1.2, None, 1.4)).targets] == [True] * 4
    assert "vcrecovery move" in text(results())


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
