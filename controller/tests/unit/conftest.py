"""A small plan that is right, and services of it in trouble."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from simulation import Simulation
from vcrecovery.core.states import Policy

START = 1_790_000_000.0
PLAN = """\
version: 1
state_dir: {folder}/state
hypervisors:
  hv1: {{uri: "qemu:///system?socket={folder}/no-libvirt"}}
secondaries:
  sec1:
    lxd: {folder}/no-lxd.socket
    network: {{bridge: vcr0, address: 10.20.0.1/24}}
    receiver: {{address: 10.10.0.1}}
dns:
  servers:
    ns1: {{address: 127.0.0.1, port: 9}}
  keys:
    key1: {{name: vcr.key, secret_file: {folder}/secret}}
  zones:
    example.test: {{servers: [ns1], key: key1}}
services:
  web:
    primary: {{hypervisor: hv1, uuid: 6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0001, address: 10.10.0.10}}
    standby: {{secondary: sec1, address: 10.20.0.10}}
    ports: [80, {{tcp: 443}}]
    dns:
      - {{name: www.example.test, zone: example.test}}
    max_staleness: 2m
"""


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    file = tmp_path / "plan.yml"
    file.write_text(PLAN.format(folder=tmp_path))
    return file


@pytest.fixture
def local_plan(plan_file: Path) -> Path:
    """The same plan on the loopback, with ports that nobody has."""
    text = plan_file.read_text().replace("10.10.0.10", "127.0.1.10").replace("10.20.0.", "127.0.0.")
    plan_file.write_text(text.replace("10.10.0.1}", "127.0.2.1}").replace("[80, {tcp: 443}]", "[1, {tcp: 2}]"))
    return plan_file


@pytest.fixture
def simulation(local_plan: Path) -> Simulation:
    """Its journal is the plan's."""
    folder = local_plan.parent / "state"
    folder.mkdir()
    simulation = Simulation(folder, Policy(max_staleness=60.0))
    simulation.clock.time = START
    simulation.env.heartbeat_at = START - 5
    simulation.watch()
    simulation.clock.sleep(3)
    return simulation


@pytest.fixture
def failed_over(simulation: Simulation, local_plan: Path) -> Path:
    simulation.crash()
    simulation.watch()
    return local_plan


@pytest.fixture
def stopped(simulation: Simulation, local_plan: Path) -> Path:
    """A watcher that was killed in the start."""
    simulation.crash()
    simulation.kill_at = "before start"
    simulation.watch()
    return local_plan


@pytest.fixture
def hanging(local_plan: Path) -> Iterator[Path]:
    """libvirtd, LXD and DNS take connections, and never answer."""
    folder = local_plan.parent
    with (
        socket.socket(socket.AF_UNIX) as libvirtd,
        socket.socket(socket.AF_UNIX) as lxd,
        socket.create_server(("127.0.0.1", 0)) as dns,
    ):
        libvirtd.bind(str(folder / "no-libvirt"))
        lxd.bind(str(folder / "no-lxd.socket"))
        libvirtd.listen(50)
        lxd.listen(50)
        local_plan.write_text(local_plan.read_text().replace("port: 9}", f"port: {dns.getsockname()[1]}}}"))
        yield local_plan
