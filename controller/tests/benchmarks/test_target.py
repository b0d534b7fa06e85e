"""What a benchmark says of a figure and its limit, and when it fails."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from exclude_bench.command import Benchmark, as_json
from exclude_bench.target import Target, failures


@dataclass(frozen=True)
class Results:
    targets: Sequence[Target]


@dataclass(frozen=True)
class Named(Results):
    where: str


def ratio(measured: float | None, limit: float = 0.25) -> Target:
    return Target("ratio", measured, limit, "", at_most=True, void_because="no round is left")


def test_a_missed_target_says_by_how_much() -> None:
    assert Target("time", 0.4, 0.5, "s", at_most=True).verdict == "ok"
    assert Target("time", 0.75, 0.5, "s", at_most=True).verdict == "MISSED by 0.25 s"
    assert Target("ratio", 4.0, 5.0, "times", at_most=False).verdict == "MISSED by 1 times"
    assert ratio(0.25).verdict == "ok"


@pytest.mark.parametrize(
    ("measured", "limit", "at_most", "shown"),
    [
        (11.5 / 45.6, 0.25, True, "0.252"),
        (0.25004, 0.25, True, "0.25004"),
        (0.24996, 0.25, True, "0.25"),
        (0.22, 0.2, True, "0.22"),
        (200.4, 200.0, True, "200.4"),
        (199.6, 200.0, True, "200"),
        (12_345.2, 12_345.0, True, "12,345.2"),
        (4.9996, 5.0, False, "4.9996"),
        (1234.5, 5.0, False, "1,234"),
        (0.0, 0.0, True, "0"),
        (0.00001, 0.0, True, "0.00001"),
        (0.04119, 0.05, True, "0.0412"),
        (-0.5, 0.0, True, "-0.5"),
    ],
)
def test_a_figure_is_on_the_same_side_of_its_limit_when_it_is_read(
    measured: float, limit: float, at_most: bool, shown: str
) -> None:
    target = Target("figure", measured, limit, "", at_most=at_most)
    assert target.shown == shown
    read = float(target.shown.replace(",", ""))
    assert (read <= limit if at_most else read >= limit) == target.met


@pytest.mark.parametrize("measured", [None, float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("at_most", [True, False])
def test_what_was_not_measured_is_neither_met_nor_missed(measured: float | None, at_most: bool) -> None:
    target = Target("ratio", measured, 5.0, "times", at_most=at_most, void_because="no round is left")
    assert (target.met, target.shown, target.verdict) == (False, "none", "VOID: no round is left")
    assert failures([target]) == ["ratio: VOID: no round is left"]
    (entry,) = json.loads(as_json(Results([target])))["targets"]
    assert (entry["measured"], entry["met"], entry["verdict"]) == (None, False, "VOID: no round is left")


def test_a_missed_limit_is_a_measurement_and_a_fault_is_none() -> None:
    wrong = Target("wrong values", 1.0, 0.0, "", at_most=True, must=True)
    assert failures([ratio(0.3), ratio(0.2), wrong]) == ["wrong values: MISSED by 1"]
    assert failures([Target("wrong values", 0.0, 0.0, "", at_most=True, must=True)]) == []


@pytest.mark.parametrize(
    ("measured", "status", "said"), [(0.2, 0, ""), (0.3, 0, ""), (None, 1, "bench: ratio: VOID: no round is left\n")]
)
def test_a_benchmark_with_a_void_figure_prints_what_it_has_and_fails(
    measured: float | None,
    status: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "results.json"
    monkeypatch.setattr(sys, "argv", ["bench", "--work", str(tmp_path), "--json", str(file)])
    bench = Benchmark(
        name="bench",
        about="",
        seed_of="",
        measure=lambda _folder, _quick, _seed: Results([ratio(measured)]),
        text=lambda _results: "all that was measured\n",
    )
    assert bench.main() == status
    out, err = capsys.readouterr()
    assert out == "all that was measured\n"
    assert [line for line in err.splitlines(keepends=True) if line.startswith("bench:")] == ([said] if said else [])
    assert json.loads(file.read_text())["targets"][0]["measured"] == measured


@pytest.mark.parametrize(("words", "printed"), [((), "here"), (("--there",), "there")])
def test_an_option_chooses_what_measures(
    words: Sequence[str],
    printed: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "--work", str(tmp_path), *words])
    bench = Benchmark(
        name="bench",
        about="",
        seed_of="",
        measure=lambda _folder, _quick, _seed: Named([], "here"),
        instead={"--there": ("elsewhere", lambda _folder, _quick, _seed: Named([], "there"))},
        text=lambda results: results.where,
    )
    assert bench.main() == 0
    assert capsys.readouterr().out == printed
