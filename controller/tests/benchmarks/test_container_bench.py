"""What is made of the figures of a VM and of the containers in it."""

from __future__ import annotations

import json

import pytest

from container_bench.loads import (
    COPIES,
    NETWORK,
    Load,
    NoFigureError,
    bogo_operations,
    copied,
    loads,
    received,
    transferred,
)
from container_bench.paper import LOADS, NOTHING, TOTAL, said
from container_bench.results import text
from container_bench.rounds import Got, a_round, compare, order
from container_bench.scale import QUICK
from container_bench.sides import VM
from container_results import SIDES, a_whole_round, results
from exclude_bench.command import as_json
from exclude_bench.target import failures
from vcrecovery_lab.progress import silent_progress
from vcrecovery_lab.run import LabError

STRESS = "metrics:\n    - stressor: pipe\n      bogo-ops: 12\n      bogo-ops-per-second-real-time: 12.500000\n"
DD = "3+0 records in\n3+0 records out\n16777216 bytes (17 MB, 16 MiB) copied, 0.5 s, 34 MB/s\n"
FIO = json.dumps({"jobs": [{"read": {"bw_bytes": 0}, "write": {"bw_bytes": 5_000_000}}]})
IPERF3 = json.dumps({"end": {"sum_received": {"bits_per_second": 9e8}}})


def test_each_side_is_once_the_first_and_once_the_last() -> None:
    rounds = [order(number, SIDES) for number in range(3)]
    for sides in (*rounds, *zip(*rounds, strict=True)):
        assert sorted(sides) == sorted(SIDES)


def test_the_same_command_runs_on_every_side_for_each_of_the_papers_loads() -> None:
    made = loads(QUICK)
    assert all(isinstance(load, Load) and load.command for load in made)
    assert {load.name for load in made} | {NETWORK} == {name for names in LOADS.values() for name in names}


def test_no_load_answers_with_the_figure_of_the_one_before_it() -> None:
    commands = [load.command for load in loads(QUICK) if "--yaml" in load.command]
    assert commands
    assert all(command.index("rm -f ") < command.index("stress-ng") for command in commands)


@pytest.mark.parametrize(
    ("read", "printed", "figure"),
    [
        (bogo_operations, STRESS, 12.5),
        (copied, DD, 33.554432),
        (transferred, f"note\n{FIO}", 5.0),
        (received, IPERF3, 900),
    ],
)
def test_a_figure_is_read_out_of_what_a_load_prints(read: object, printed: str, figure: float) -> None:
    assert callable(read)
    assert read(printed) == pytest.approx(figure)


@pytest.mark.parametrize("read", [bogo_operations, copied, transferred, received])
@pytest.mark.parametrize("printed", ["", "stress-ng: info: skipped", "{}", '{"jobs": []}', '{"end": {}}', "[1]", "{"])
def test_a_load_that_prints_no_figure_has_none(read: object, printed: str) -> None:
    assert callable(read)
    with pytest.raises(NoFigureError, match="printed no figure"):
        read(printed)


def test_nothing_at_all_is_no_figure() -> None:
    with pytest.raises(NoFigureError):
        bogo_operations(STRESS.replace("12.500000", "0.000000"))


def test_what_fails_on_one_side_is_written_down_and_the_round_goes_on() -> None:
    def measure(load: str, side: str) -> float:
        if (load, side) == ("pipe", "C.dir"):
            raise LabError("vcrlab-vms-in-dir: no such command")
        return 7.0

    found = a_round(0, ["pipe", "fork"], SIDES, measure, silent_progress)
    assert found["pipe"]["C.dir"] == Got(None, "vcrlab-vms-in-dir: no such command")
    assert [list(sides) for sides in found.values()] == [list(SIDES)] * 2
    assert found["fork"]["C.dir"] == Got(7.0)


@pytest.mark.parametrize("side", [VM, "C.dir"])
def test_a_figure_that_is_missing_on_one_side_voids_the_round_by_name(side: str) -> None:
    whole = a_whole_round(dir=0.5, btrfs=0.5)
    broken = {**whole, "pipe": {**whole["pipe"], side: Got(None, "no pipes")}}
    found = compare([whole, broken], ("pipe",), "C.dir", VM)
    assert list(found.ratios) == [0.5]
    assert list(found.void) == [f"round 2: pipe: {side}: no pipes"]
    assert (found.judged(1), found.judged(2)) == (0.5, None)
    # The total needs all of them.
    assert compare([whole, broken], LOADS[TOTAL], "C.dir", VM).void == found.void


def test_a_total_is_the_geometric_mean_of_ratios() -> None:
    whole = a_whole_round(dir=1.0)
    uneven = {**whole, "pipe": {VM: Got(100.0), "C.dir": Got(400.0)}, "fork": {VM: Got(100.0), "C.dir": Got(25.0)}}
    assert compare([uneven], LOADS[TOTAL], "C.dir", VM).median == pytest.approx(1.0)


def test_what_the_paper_says() -> None:
    assert said("pipe", "btrfs").low == 0.83
    assert {said(copy, "dir").low for copy in COPIES} == {0.90}
    assert {said(copy, "btrfs").low for copy in COPIES} == {0.35}
    assert said(TOTAL, "dir").low == 0.92
    assert said(TOTAL, "btrfs") == said("fork", "dir") == NOTHING


def test_the_verdicts_of_whole_rounds() -> None:
    found = results(*[a_whole_round(dir=0.95, btrfs=0.5)] * 3)
    verdicts = {target.name: target.met for target in found.targets}
    assert verdicts["pipe: C.dir / VM"]
    assert not verdicts["pipe: C.btrfs / VM"]
    assert verdicts["file copy, 256 B: C.btrfs / VM"]
    assert failures(found.targets) == []
    shown = text(found)
    assert "0.950 (0.950 to 0.950)" in shown
    assert "zfs" in shown
    assert "void" not in shown.lower()


def test_a_round_too_few_is_void_and_fails_the_benchmark() -> None:
    whole = a_whole_round(dir=0.95, btrfs=0.5)
    broken = {**whole, NETWORK: {**whole[NETWORK], "C.dir": Got(None, "iperf3: no route")}}
    found = results(whole, whole, broken)
    why = f"2 of 3 rounds are left, 3 are needed; round 3: {NETWORK}: C.dir: iperf3: no route"
    assert failures(found.targets) == [f"{NETWORK}: C.dir / VM: VOID: {why}"]
    assert "iperf3: no route" in text(found)
    document = json.loads(as_json(found))
    assert document["rounds"][2][NETWORK]["C.dir"] == {"figure": None, "missing": "iperf3: no route"}
