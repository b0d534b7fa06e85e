"""The page of the paper's experiments, made of small results, and what is run for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from container_bench.loads import NETWORK
from container_results import a_whole_round
from container_results import results as of_containers
from exclude_bench.command import as_json
from exclude_bench.lists import KINDS, NAIVE, TIMED
from move_results import in_vms
from move_results import results as of_moves
from paper_bench import measuring
from paper_bench.__main__ import main
from paper_bench.benches import BENCHES, CONTAINERS, EXCLUDES, MOVES, MOVES_IN_VMS, RECOVERY, USERS, Bench
from paper_bench.costs import years
from paper_bench.figure import Figure, Plot, Values
from paper_bench.kept import Folder, Kept, Run
from paper_bench.measuring import measure, missing, shown
from paper_bench.page import figures, page
from paper_bench.plots import svg
from recovery_bench.results import Measured, targets
from recovery_bench.rounds import Took, Way
from recovery_bench.scale import QUICK
from recovery_bench.stage_containers import Recovery
from recovery_bench.stage_vms import VmRecovery
from vcrecovery.cost.alternatives import Way as Protection

GOLDEN = Path(__file__).parent / "golden/paper.md"
MACHINE = {"CPU": "Some CPU, 2 cores", "memory": "24 GiB", "LXD": "5.0.2"}
RUN = Run(quick=False, status=0, said="", commit="0123456789ab", day="2026-11-25", machine=MACHINE)
SILENT = Took(None, "web1 did not answer within 900 s")


def spread(median: float, runs: int = 5) -> dict[str, Any]:
    return asdict(Values(median, median * 0.9, median * 1.1, runs))


def of_recovery(*booted: Took) -> dict[str, Any]:
    rounds = []
    for took in booted:
        vms = {Way.BOOTED: took, Way.RESUMED: Took(4.0), Way.RESTORED: Took(8.0)}
        containers = {Way.COLD: (20.0, 24.0), Way.FROZEN: (2.0, 3.0), Way.HOT: (0.01, 1.0)}
        entry = Measured(
            {way: VmRecovery(took, {}) for way, took in vms.items()},
            {way: Recovery(Took(first), Took(end), {}, {}) for way, (first, end) in containers.items()},
        )
        rounds.append(entry)
    asked = [asdict(target) for target in targets(QUICK, rounds, [])]
    return _as_read({"load": 0.4, "accelerator": "qemu", "rounds": [asdict(one) for one in rounds], "targets": asked})


def of_users() -> dict[str, Any]:
    took = {
        Way.BOOTED: Took(50.0),
        Way.COLD: Took(30.0),
        Way.FROZEN: Took(8.0),
        Way.WARM: Took(7.0),
        Way.HOT: Took(6.0),
    }
    entry = {way: asdict(one) for way, one in took.items()}
    return _as_read({"load": 0.1, "accelerator": "qemu", "rounds": [entry, entry], "targets": []})


def of_excludes() -> dict[str, Any]:
    seconds = {kind: 4.0 if kind == NAIVE else 1.0 for kind in KINDS}
    lists = [{"kind": kind, "paths": 30, "call": spread(took)} for kind, took in seconds.items()]
    costs = [
        {"scenario": scenario, "kind": kind, "wall": spread(seconds[kind] * 10)}
        for scenario in ("nothing changed", "5 % changed")
        for kind in TIMED
    ]
    found = {"live": 200_000, "unneeded": 30_000, "lists": lists, "targets": []}
    return found | {"rsync": {"files": 205_000, "changed": 10_250, "costs": costs}}


def of_container_bench() -> dict[str, Any]:
    whole = a_whole_round(dir=0.9, btrfs=0.6)
    broken = {
        **whole,
        NETWORK: {side: replace(got, figure=None, missing="no | route") for side, got in whole[NETWORK].items()},
    }
    found: dict[str, Any] = json.loads(as_json(of_containers(whole, whole, broken)))
    return found


def _as_read(results: Mapping[str, Any]) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(json.dumps(results))
    return read


def of_move_bench() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(as_json(of_moves()))
    return found


def of_moves_in_vms() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(as_json(in_vms()))
    return found


def all_kept() -> dict[str, Kept | None]:
    """Of each kind one: whole, with a void round, quick; and in `containers` what ended with void figures."""
    return {
        RECOVERY: Kept(RUN, of_recovery(Took(80.0), SILENT, Took(100.0))),
        USERS: Kept(replace(RUN, quick=True), of_users()),
        EXCLUDES: Kept(RUN, of_excludes()),
        CONTAINERS: Kept(replace(RUN, status=1, said="container_bench: TCP to it: VOID"), of_container_bench()),
        MOVES: Kept(RUN, of_move_bench()),
        MOVES_IN_VMS: Kept(RUN, of_moves_in_vms()),
    }


def written(kept: Mapping[str, Kept | None]) -> str:
    return page(kept, figures(kept), "benchmarks")


def section(text: str, number: str) -> str:
    return text.partition(f"## Figure {number}: ")[2].partition("\n## ")[0]


# -- the page -----------------------------------------------------------------------------------------------------


def test_the_page_is_as_it_was() -> None:
    made = written(all_kept())
    if os.environ.get("VCRECOVERY_REWRITE"):
        GOLDEN.write_text(made)
    assert made == GOLDEN.read_text()


def test_every_figure_of_the_paper_is_there_whatever_is_missing() -> None:
    heads = ["9a", "9b", "10a", "10b", "11a", "11b", "12", "13", "14", "15"]
    for kept in (all_kept(), dict.fromkeys(BENCHES), dict.fromkeys(BENCHES, Kept(replace(RUN, status=1), None))):
        text = written(kept)
        assert [line.split()[2].rstrip(":") for line in text.splitlines() if line.startswith("## Figure")] == heads
        assert all("The paper: " in section(text, number) for number in heads)


def test_a_move_stands_beside_the_papers() -> None:
    text = section(written(all_kept()), "15")
    assert "down, vcrecovery move" in text
    assert "5.4 to 9.0 s" in text
    assert "Without CRIU" in text
    assert "down in VMs, vcrecovery move --how stateful" in text
    assert "in VMs, round 2: vcrecovery move --how stateful: criu: no" in text


def test_moves_are_there_without_vms_and_with_them_alone() -> None:
    for absent, there, said in (
        (MOVES_IN_VMS, "| down, rsync", "move_bench --vms"),
        (MOVES, "| down in VMs, rsync", "move_bench"),
    ):
        text = section(written({**all_kept(), absent: None}), "15")
        assert there in text
        assert f"**Not measured yet:** `{said}` (" in text


def test_our_own_limits_stand_there_and_what_was_missed_is_said_to_be_missed() -> None:
    kept = all_kept()
    text = written(kept).partition("## Our own limits\n")[2].partition("\n## ")[0]
    frozen = "| `recovery_bench` | frozen containers / resumed VMs, up to where all answer | 0.5 | <= 1 | ok |"
    assert frozen in text
    assert "cold containers / booted VMs, up to where the command's end | 0.27 | <= 0.25 | MISSED by 0.0" in text
    assert text.index("MISSED") < text.index(frozen)
    slow = kept[RECOVERY]
    assert slow is not None
    quick = Kept(replace(RUN, quick=True), slow.found)
    assert "cold containers / booted VMs, up" not in written({**kept, RECOVERY: quick})


def test_a_quick_run_is_no_measurement_and_says_so_at_the_top_and_at_its_figures() -> None:
    text = written(all_kept())
    assert "**Quick runs, no measurements:** users." in text.partition("## ")[0]
    for number in ("9a", "10a"):
        assert "Quick, no measurement:** `recovery_bench.users`" in section(text, number)
    assert "Quick" not in section(text, "12")
    assert "Quick" not in written({**all_kept(), USERS: Kept(RUN, of_users())})


def test_what_was_never_run_and_what_failed_are_told_apart() -> None:
    failed = Kept(replace(RUN, status=1, said="exclude_bench: no space left"), None)
    text = written({**all_kept(), EXCLUDES: failed, CONTAINERS: None})
    assert "**Failed:** `exclude_bench`: exclude_bench: no space left" in section(text, "11b")
    assert "**Not measured yet:** `container_bench`" in section(text, "13")
    assert "**No results yet:** excludes, containers." in text.partition("## ")[0]


def test_a_side_without_an_answer_is_named_and_its_round_does_not_count() -> None:
    text = section(written(all_kept()), "10a")
    assert "2 of 3" in text
    assert "round 2: booted VMs: web1 did not answer within 900 s" in text
    assert "| 0.50 | 20.0 s | booted VMs: 90.0 (80.0 to 100.0) s | 0.225 (0.200 to 0.250) | 2 of 3 |" in text


def test_rounds_without_any_answer_have_a_row_and_no_figure() -> None:
    text = section(written({**all_kept(), RECOVERY: Kept(RUN, of_recovery(SILENT))}), "10a")
    assert "| none | booted VMs: none | none | 0 of 1 |" in text


def test_one_of_two_benchmarks_is_enough_for_its_rows() -> None:
    text = section(written({**all_kept(), RECOVERY: None}), "9a")
    assert "crash until every name" in text
    assert "has ended" not in text
    assert "**Not measured yet:** `recovery_bench`" in text


def test_results_of_another_version_say_how_to_measure_anew() -> None:
    old = {name: value for name, value in of_excludes().items() if name != "lists"}
    text = written({**all_kept(), EXCLUDES: Kept(RUN, old)})
    assert "--again excludes" in section(text, "11a")
    assert "another version's" not in section(text, "11b")


def test_what_a_program_said_does_not_break_a_table() -> None:
    failed = Kept(replace(RUN, status=1, said="a | b\nc"), None)
    assert "a \\| b c" in written({**all_kept(), USERS: failed})


def test_runs_on_two_machines_are_seen() -> None:
    other = Kept(replace(RUN, machine={**MACHINE, "memory": "8 GiB"}), of_users())
    assert "| memory | 24 GiB and 8 GiB |" in written({**all_kept(), USERS: other})


def test_the_papers_costs_are_those_of_the_price_file() -> None:
    found = years(4)
    assert round(found[Protection.THIS_PLAN], 2) == round(found[Protection.SHARED] * 4, 2)
    assert 14_500 < found[Protection.SECOND_VMS] - found[Protection.THIS_PLAN] < 15_500


# -- the plots ----------------------------------------------------------------------------------------------------


def plots(made: Sequence[Figure]) -> list[Plot]:
    return [figure.plot for figure in made if figure.plot]


def test_a_plot_is_the_same_bytes_each_time_and_says_no_day() -> None:
    for plot in plots(figures(all_kept())):
        first = svg(plot)
        assert first == svg(plot)
        assert "<dc:date>" not in first
        assert len(first) < 60_000


def test_each_plot_is_on_the_page_and_white_below_its_text() -> None:
    made = figures(all_kept())
    text = written(all_kept())
    for plot in plots(made):
        assert f"](benchmarks/{plot.name}.svg)" in text
        drawn = svg(plot)
        # The background comes before anything on it.
        assert drawn.index("fill: #ffffff") < drawn.index("<text")


def test_a_plot_says_where_there_is_no_figure() -> None:
    assert "no figure" in svg(Plot("figure-0", "0", "s", {"a": {"x": None, "y": Values.of([1.0, 2.0])}}))


# -- what is run --------------------------------------------------------------------------------------------------

#: A benchmark: writes its words, says something, and ends as the words before it want.
PROGRAM = """\
import json, os, pathlib, signal, sys, time
sys.stderr.write("round 1 ... 0.1 s\\n")
words = sys.argv[1:]
pathlib.Path("calls").open("a").write(json.dumps([__name__, *words]) + "\\n")
if os.environ.get("HANGS"):
    signal.signal(signal.SIGTERM, lambda *_: (pathlib.Path("removed").touch(), sys.exit(1)))
    sys.stderr.write("hangs\\n")
    time.sleep(60)
status = int(os.environ.get("STATUS", "0"))
if status < 2:
    pathlib.Path(words[words.index("--json") + 1]).write_text(json.dumps({"targets": []}))
if status:
    sys.stderr.write("made_up: no space left\\n")
sys.exit(status)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the one benchmark is a small program."""
    (tmp_path / "made_up.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(measuring, "BENCHES", {"one": Bench("made_up", "a second", "1")})
    return tmp_path


def calls(place: Path) -> list[list[str]]:
    file = place / "calls"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def run_what_is_missing(folder: Folder, *again: str, quick: bool = False) -> None:
    measure(folder, missing(folder, again, quick), quick)


def test_what_was_measured_is_kept_and_only_measured_anew_when_asked(place: Path) -> None:
    folder = Folder(place / "kept")
    run_what_is_missing(folder)
    run_what_is_missing(folder)
    assert len(calls(place)) == 1
    run_what_is_missing(folder, "one")
    assert len(calls(place)) == 2
    kept = folder.read("one")
    assert kept is not None
    assert (kept.found, kept.run.status, kept.run.quick) == ({"targets": []}, 0, False)
    assert {"CPU", "memory", "kernel", "LXD", "libvirt", "QEMU"} <= set(kept.run.machine)


def test_a_quick_run_does_not_stand_for_a_whole_one_but_the_reverse(place: Path) -> None:
    folder = Folder(place / "kept")
    run_what_is_missing(folder, quick=True)
    assert missing(folder, (), quick=True) == []
    assert missing(folder, (), quick=False) == ["one"]
    run_what_is_missing(folder)
    assert ["--quick" in words for words in calls(place)] == [True, False]
    assert missing(folder, (), quick=True) == []


@pytest.mark.parametrize(("status", "found", "again"), [(1, {"targets": []}, []), (2, None, ["one"])])
def test_a_benchmark_that_fails_is_written_down_and_tried_again_if_it_found_nothing(
    status: int,
    found: object,
    again: list[str],
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("STATUS", str(status))
    folder = Folder(place / "kept")
    run_what_is_missing(folder)
    kept = folder.read("one")
    assert kept is not None
    assert (kept.found, kept.run.status, kept.run.said) == (found, status, "made_up: no space left")
    assert missing(folder, (), quick=False) == again
    assert "round 1 ... 0.1 s\n" in capfd.readouterr().err


def test_a_failure_does_not_leave_the_results_of_an_earlier_run(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder(place / "kept")
    run_what_is_missing(folder)
    monkeypatch.setenv("STATUS", "2")
    run_what_is_missing(folder, "one")
    kept = folder.read("one")
    assert kept is not None
    assert kept.found is None


def test_a_benchmark_that_is_cut_off_removes_what_it_made_and_counts_as_not_run(place: Path) -> None:
    script = (
        "from pathlib import Path; from paper_bench import measuring; from paper_bench.benches import Bench; "
        "from paper_bench.kept import Folder; measuring.BENCHES = {'one': Bench('made_up', '', '1')}; "
        "measuring.measure(Folder(Path('kept')), ['one'], False)"
    )
    command = [sys.executable, "-c", script]
    # What pytest has on its path, a program of its own has not.
    env = {**os.environ, "HANGS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "hangs\n" in process.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM
    assert (place / "removed").exists()
    assert missing(Folder(place / "kept"), (), quick=False) == ["one"]


def test_the_last_line_is_told_though_somebody_else_keeps_stderr_open(tmp_path: Path) -> None:
    began = time.monotonic()
    assert shown(["sh", "-c", "sleep 20 & echo some daemon has started >&2; exit 3"]) == (3, "some daemon has started")
    assert time.monotonic() - began < 20


def test_the_page_is_written_of_what_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, docs = Folder(tmp_path / "kept"), tmp_path / "docs"
    for name, kept in all_kept().items():
        assert kept is not None
        results = folder.unfinished(name)
        results.write_text(json.dumps(kept.found))
        folder.write(name, kept.run, results)
    (docs / "benchmarks").mkdir(parents=True)
    (docs / "benchmarks/figure-99.svg").touch()
    assert main(["--page", "--kept", str(tmp_path / "kept"), "--docs", str(docs)]) == 1
    assert (docs / "benchmarks.md").read_text() == written(all_kept())
    assert {path.stem for path in docs.rglob("*.svg")} == {plot.name for plot in plots(figures(all_kept()))}
    assert "with a void one: containers" in capsys.readouterr().err


def test_a_kept_file_that_is_broken_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "users.run.json").write_text("{")
    assert main(["--page", "--kept", str(tmp_path), "--docs", str(tmp_path / "docs")]) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"paper_bench: {tmp_path}/users.run.json: ")
    assert len(err.splitlines()) == 1
