"""The controller is killed between any two steps of a failover of real parts; the next call finishes the job, once."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from vcrecovery.recover.journal import Journal
from vcrecovery.recover.states import Outcome
from vcrecovery_lab import libvirt, machine
from vcrecovery_lab.client import fetch
from vcrecovery_lab.run import run

from .conftest import BLANK, BLANK_UUID, Lab

pytestmark = pytest.mark.lab

KILLER = Path(__file__).with_name("killed_controller.py")
#: Of the journal alone: opened, six steps with a beginning and an end, closed.
ENTRIES = 1 + 6 * 2 + 1


def test_killed_at_every_boundary(lab: Lab, blank: int, tmp_path: Path) -> None:
    os.kill(blank, signal.SIGKILL)
    for boundary in range(1, 4 * ENTRIES):
        folder = tmp_path / str(boundary)
        folder.mkdir()
        plan = lab.other_plan(folder)
        lab.reset_standby()
        lab.stamp()
        killed = run(
            [sys.executable, KILLER, str(boundary), "failover", "web", "--plan", plan], timeout=120, check=False
        )
        assert killed.returncode in (-signal.SIGKILL, 0), (boundary, killed.stdout, killed.stderr)
        finished = lab.vcrecovery("failover", "web", plan=plan)
        assert finished.returncode == 0, (boundary, finished.stdout, finished.stderr)
        episodes = Journal(folder / "state/journal.db").history("web")
        assert [(e.epoch, e.outcome) for e in episodes] == [(1, Outcome.DONE)], boundary
        assert lab.dig(f"_vcrecovery.{lab.layout.name}", "TXT") == ['"epoch=1"'], boundary
        assert fetch(lab.layout.name_server, f"http://{lab.layout.name}/", 20.0) is not None, boundary
        if killed.returncode == 0:
            break
    assert ENTRIES < boundary < 4 * ENTRIES - 1
    machine.destroy_and_undefine_blank(BLANK)
    assert libvirt.pid(BLANK, BLANK_UUID) is None
