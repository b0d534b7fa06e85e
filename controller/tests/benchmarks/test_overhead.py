"""The benchmark of the controller's overhead, with three services: the real program, libvirtd and BIND."""

from __future__ import annotations

from pathlib import Path

import pytest

from recovery_bench.overhead import Overhead, measure_overhead, overhead_targets, overhead_text

pytestmark = pytest.mark.lab


def test_three(tmp_path: Path) -> None:
    found = measure_overhead(tmp_path, 3, 1)
    assert (found.services, len(found.whole), len(found.with_dns)) == (3, 1, 1)
    assert 0 < found.median < 60
    # The parts are all that there is of it.
    assert sum(found.parts.values()) == pytest.approx(found.median, abs=0.05)
    assert {"switch", "verify"} == set(found.parts_with_dns) - set(found.parts)
    assert all(seconds >= 0 for seconds in found.parts.values())
    assert "3 services" in overhead_text([found])


def test_what_was_asked_for() -> None:
    targets = overhead_targets([Overhead(200, (1.0, 3.0, 2.5), (1.0, 3.0, 2.5), {}, {}, (), ())])
    assert [(target.measured, target.limit, target.met) for target in targets] == [(2.5, 2.0, False)]
