"""The contracts of the drivers, kept by their fakes; `lab/test_v_contracts.py` holds the real things to the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from contracts import dns, fence, libvirt, lxd, probe, runtime
from simulated.stages import (
    SimulatedBmc,
    SimulatedHypervisor,
    SimulatedNameServers,
    SimulatedSecondary,
    SimulatedServer,
    SimulatedStage,
)
from vcrecovery.drivers import dns as driver
from vcrecovery.drivers.libvirt import connection

#: In the order of who is ready first, and in others.
in_any_order = pytest.mark.parametrize("seed", [None, 1, 2])


@runtime.case.each
@in_any_order
def test_runtime(case: Callable[[runtime.Process], None], seed: int | None, tmp_path: Path) -> None:
    SimulatedStage(tmp_path, seed).play(case)


@libvirt.case.each
@in_any_order
def test_libvirt(
    case: Callable[[libvirt.Hypervisor], None], seed: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "KEEPALIVE_SECONDS", 1)
    monkeypatch.setattr(connection, "KEEPALIVE_COUNT", 1)
    SimulatedHypervisor(tmp_path, seed).play(case)


@probe.case.each
@in_any_order
def test_probe(case: Callable[[probe.Server], None], seed: int | None, tmp_path: Path) -> None:
    SimulatedServer(tmp_path, seed).play(case)


@fence.case.each
@in_any_order
def test_fence(case: Callable[[fence.Bmc], None], seed: int | None, tmp_path: Path) -> None:
    SimulatedBmc(tmp_path, seed).play(case)


@lxd.case.each
@in_any_order
def test_lxd(case: Callable[[lxd.Secondary], None], seed: int | None, tmp_path: Path) -> None:
    SimulatedSecondary(tmp_path, seed).play(case)


@dns.case.each
@in_any_order
def test_dns(
    case: Callable[[dns.NameServers], None], seed: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "QUERY_TIMEOUT", 1.0)
    SimulatedNameServers(tmp_path, seed).play(case)
