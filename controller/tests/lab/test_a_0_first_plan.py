"""`vcrecovery plan init` in the lab: its VM, with the address and the port that it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from vcrecovery.plan.load import load_plan
from vcrecovery_lab.run import run

from .conftest import PROGRAM, Lab

pytestmark = pytest.mark.lab


def test_it_finds_the_vm_and_where_it_answers(lab: Lab, tmp_path: Path) -> None:
    file, laid_out = tmp_path / "plan.yml", load_plan(lab.layout.plan_file)
    lab.primary("true")
    done = run([PROGRAM, "plan", "init", "--lxd", lab.layout.lxd_socket, "--output", file], timeout=120)
    assert "VM(s); look at" in done.stderr
    found, wanted = load_plan(file), laid_out.services["web"]
    (service,) = [one for one in found.services.values() if one.primary.uuid == wanted.primary.uuid]
    assert service.primary.address == wanted.primary.address
    assert [port.number for port in service.ports] == [port.number for port in wanted.ports]
    assert found.secondaries["sec1"].storage_pool == lab.layout.pool
