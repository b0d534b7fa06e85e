"""What the benchmark of recovery makes of its figures; the measuring itself needs half an hour."""

from __future__ import annotations

import json

import pytest

from exclude_bench.command import as_json
from recovery_bench.boots import read_boot
from recovery_bench.results import Results, targets, text
from recovery_bench.scale import QUICK
from recovery_bench.stage_containers import Recovery

STEPS = {"confirm": 1.0, "start": 2.0, "restore": 0.0}


def test_ratios_are_taken_round_by_round() -> None:
    boot = read_boot(lambda _: SHOWN, 80, 12.0)
    cold = [Recovery(20.0, 25.0, STEPS, {"web1": boot}), Recovery(30.0, 28.0, STEPS, {"web1": boot})]
    frozen = [Recovery(2.0, 3.0, STEPS, {}), Recovery(4.0, 5.0, STEPS, {})]
    vms = [100.0, 100.0]
    modes = {"cold": cold, "frozen": frozen}
    found = targets(vms, modes, [])
    assert [round(target.measured or 0.0, 3) for target in found] == [0.25, 0.275, 0.03, 0.04]
    assert [target.met for target in found] == [True, False, True, True]
    results = Results(QUICK, 0.5, "qemu", vms, [{"web1": boot}] * 2, modes, [], found)
    shown = text(results)
    assert "frozen containers" in shown
    assert "MISSED by 0.025" in shown
    assert [target["met"] for target in json.loads(as_json(results))["targets"]] == [True, False, True, True]


SHOWN = """\
UserspaceTimestampMonotonic=2000000
InactiveExitTimestampMonotonic=8000000
ActiveEnterTimestampMonotonic=9500000
"""


def test_the_parts_of_a_boot_add_up() -> None:
    boot = read_boot(lambda _: SHOWN, 3306, 12.0)
    assert (boot.before, boot.systemd, boot.service) == pytest.approx((4.5, 6.0, 1.5))
