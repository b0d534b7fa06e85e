"""What the benchmark of an overload that is relieved says of its figures."""

from __future__ import annotations

import json
from pathlib import Path

from exclude_bench.command import as_json
from relief_bench.plot import drawn
from relief_bench.results import Results, longest_gap, rate, targets, text
from relief_bench.scale import Scale

SCALE = Scale(10.0, 10.0, 1)


def evenly(*phases: tuple[float, float, float]) -> list[float]:
    """So many answers in a second, from then until then."""
    return [begin + n / each for each, begin, end in phases for n in range(int((end - begin) * each))]


def results(moved: list[str]) -> Results:
    answers = {
        "web": evenly((5, 0, 12), (10, 14, 24)),
        "shop": evenly((5, 0, 12), (10, 14, 24)),
    }
    return Results(SCALE, 0.5, answers, moved, 10.0, 14.0, 24.0, "", targets(SCALE, answers, moved, 10.0, 14.0, 24.0))


def test_what_is_relieved_answers_more() -> None:
    found = results(["shop"])
    whole, stayed = found.targets
    assert (whole.measured, stayed.measured) == (2.0, 2.0)
    said = text(found)
    assert "went to sec2" in said
    assert said.count("stayed") >= 1
    (plot,) = [line for line in said.splitlines() if line.strip().startswith("web ") and "█" in line]
    assert "▄" in plot
    assert longest_gap(found.answers["web"]) == 14 - (12 - 0.2)
    assert rate(found.answers["web"], 0.0, 10.0) == 5.0


def test_where_nothing_was_moved_there_is_no_figure() -> None:
    assert [target.void for target in results([]).targets] == [True, True]


def test_the_plot_is_the_same_each_time(tmp_path: Path) -> None:
    found = json.loads(as_json(results(["shop"])))
    for name in ("one.svg", "two.svg"):
        drawn(found, tmp_path / name)
    one, two = ((tmp_path / name).read_bytes() for name in ("one.svg", "two.svg"))
    assert one == two
    assert b"vcrecovery rebalance" in one
