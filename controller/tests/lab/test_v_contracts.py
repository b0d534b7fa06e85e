"""The contracts of the drivers, kept by the real things; `unit/test_contracts.py` holds their fakes to the same.

They need nothing of the lab but its programs.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from contracts import dns, fence, libvirt, lxd, probe, provisioner, runtime
from vcrecovery.drivers.libvirt import connection

from .contract_stages import RealBmc, RealHypervisor, RealNameServers, RealSecondary, RealServer, RealStage
from .flavours import EACH, programs_of
from .hypervisor_stage import STRANGER, RealMachineHost, RealMachines
from .small_site import small_site

pytestmark = [pytest.mark.lab, pytest.mark.reaches_out]


@runtime.case.each
def test_runtime(case: Callable[[runtime.Process], None], monkeypatch: pytest.MonkeyPatch) -> None:
    stage = RealStage()
    monkeypatch.setattr(threading, "excepthook", stage.has_broken)
    case(stage)


@pytest.fixture(scope="module")
def hypervisor() -> Iterator[RealHypervisor]:
    with closing(RealHypervisor()) as made:
        yield made


@libvirt.case.each
def test_libvirt(
    case: Callable[[libvirt.Hypervisor], None], hypervisor: RealHypervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where nothing hangs, a machine that stands still for a moment would lose its connections by it.
    if case.__name__.endswith("_hangs"):
        monkeypatch.setattr(connection, "KEEPALIVE_SECONDS", 1)
        monkeypatch.setattr(connection, "KEEPALIVE_COUNT", 1)
    hypervisor.reset()
    case(hypervisor)


@pytest.fixture(scope="module")
def machine_host() -> Iterator[RealMachineHost]:
    with closing(RealMachineHost()) as made:
        yield made


@provisioner.case.each
def test_provisioner(case: Callable[[provisioner.Cloud], None], machine_host: RealMachineHost) -> None:
    machines = RealMachines(machine_host)
    try:
        case(machines)
    finally:
        machine_host.answers_again()
        machine_host.libvirt.forget(STRANGER)
        for lease in (provisioner.ONE, provisioner.OTHER):
            RealMachines(machine_host).destroy(machines.order(lease))


@probe.case.each
def test_probe(case: Callable[[probe.Server], None]) -> None:
    server = RealServer()
    try:
        case(server)
    finally:
        server.reset()


@fence.case.each
def test_fence(case: Callable[[fence.Bmc], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    case(RealBmc(tmp_path))


@pytest.fixture(scope="module", params=EACH)
def secondary(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSecondary]:
    folder = tmp_path_factory.mktemp("contracts")
    with small_site(folder, [RealSecondary.name], programs_of(request.param)) as site:
        yield RealSecondary(site)


@lxd.case.each
def test_lxd(case: Callable[[lxd.Secondary], None], secondary: RealSecondary) -> None:
    secondary.reset()
    case(secondary)


@pytest.fixture(scope="module")
def name_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNameServers]:
    with closing(RealNameServers(tmp_path_factory.mktemp("contracts"))) as made:
        yield made


@dns.case.each
def test_dns(case: Callable[[dns.NameServers], None], name_servers: RealNameServers) -> None:
    name_servers.reset()
    case(name_servers)
