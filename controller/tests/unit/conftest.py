"""A small plan that is right."""

from __future__ import annotations

from pathlib import Path

import pytest

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
