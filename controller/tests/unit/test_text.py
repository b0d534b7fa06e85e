"""Widths, lists, times and durations at their edges."""

from __future__ import annotations

import pytest

from vcrecovery.core.sentences import listed
from vcrecovery.core.text import cells, clock_or_day, cut, day_and_time, plain, size_of, took, wrapped

NOON = 1_790_000_000.0


@pytest.mark.parametrize(
    ("names", "said"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c", "d"], "a, b, c and d")]
)
def test_a_list_is_read_as_a_sentence(names: list[str], said: str) -> None:
    assert listed(names) == said


def test_what_does_not_print_is_shown_by_its_number() -> None:
    assert plain("\x85\xff \u0600 \uffff \U000e0001") == r"\x85ÿ \u0600 \uffff \U000e0001"


def test_wide_and_combining_letters_take_their_columns() -> None:
    # Wide, full width, an accent of its own, half width, and one whose width nobody knows.
    assert [cells(letter) for letter in ("語", "\uff21", "e\u0301", "ｱ", "¡")] == [2, 2, 1, 1, 1]


@pytest.mark.parametrize(
    ("width", "kept"), [(6, "abcdef"), (5, "ab..."), (4, "a..."), (3, "..."), (2, ".."), (0, ""), (-1, "")]
)
def test_what_is_cut_never_takes_more_columns(width: int, kept: str) -> None:
    assert cut("abcdef", width) == kept


def test_a_line_is_broken_only_where_it_must_be() -> None:
    assert wrapped("a: ", "seventeen columns", 20) == ["a: seventeen columns"]
    assert wrapped("a: ", "seventeen columns", 19) == ["a: seventeen", "   columns"]
    # Where hardly any are left, there are twelve all the same.
    assert wrapped("a: ", "seventeen columns", 4) == ["a: seventeen", "    columns"]
    # Under its beginning, unless that would leave less than half of the columns.
    assert wrapped("12345678", "one two three", 16) == ["12345678one two", " " * 8 + "three"]
    assert wrapped("123456789", "one two three", 16) == ["123456789one two", "    three"]
    # Not at a hyphen: a command could be copied from there.
    assert wrapped("a: ", "run standby-set now", 14) == ["a: run", "   standby-set", "   now"]


@pytest.mark.usefixtures("in_utc")
def test_another_day_is_named() -> None:
    assert clock_or_day(NOON, NOON + 3600) == "14:13"
    assert clock_or_day(NOON, NOON + 86_400) == "2026-09-21 14:13"
    assert clock_or_day(NOON, NOON - 86_400) == "2026-09-21 14:13"


def test_a_time_that_no_calendar_has_is_the_nearest_that_it_has() -> None:
    assert (day_and_time(1e30), day_and_time(-1e30)) == ("9999-12-30 00:00:00", "1970-01-02 00:00:00")


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 bytes"),
        (2**20 - 1, "1048575 bytes"),
        (2**20, "1 MiB"),
        (2**30, "1 GiB"),
        (3 * 2**29, "1.5 GiB"),
        (2**40, "1 TiB"),
    ],
)
def test_a_size_is_said_in_the_largest_unit_that_it_fills(count: int, said: str) -> None:
    assert size_of(count) == said


@pytest.mark.parametrize(
    ("ended_at", "said"), [(10.04, "0.0 s"), (11.5, "1.5 s"), (9.9, "an unknown time (the clock was set back)")]
)
def test_a_duration_is_not_negative(ended_at: float, said: str) -> None:
    assert took(10.0, ended_at) == said
    assert took(10.0, 10.0) == "0.0 s"
