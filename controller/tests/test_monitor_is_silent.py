"""A failover while LXD cannot tell what the standby does: its monitor has not answered for 5 s, on a busy machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simulated.lxd import SimulatedLxd
from simulated.observed import Observed
from vcrecovery.core.episode import Outcome
from vcrecovery.drivers.lxd import Instance
from vcrecovery.drivers.lxd.connection import error_of
from vcrecovery.drivers.lxd.instances import ERROR

#: Seconds.
SILENT_FOR = 3.0


@pytest.mark.parametrize("status", [ERROR, "Freezing"])
@pytest.mark.parametrize("mode", ["cold", "warm", "frozen", "hot"])
def test_the_standby_serves_once_its_monitor_answers(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, status: str
) -> None:
    site = Observed(memory_path, world={"mode": mode})
    site.watch(20)
    until = site.scheduler.time + SILENT_FOR
    get, set_state = SimulatedLxd.get, SimulatedLxd._set_state

    def found(lxd: SimulatedLxd, instance: str) -> Instance | None:
        there = get(lxd, instance)
        if there is None or site.scheduler.time > until:
            return there
        return replace(there, status=status, running=False)

    def change(lxd: SimulatedLxd, instance: str, action: str, *words: Any, **options: Any) -> None:
        if site.scheduler.time <= until:
            said = "cannot be started as in Error status" if status == ERROR else "is already running"
            raise error_of(lxd.called, f"The instance {said}")
        set_state(lxd, instance, action, *words, **options)

    monkeypatch.setattr(SimulatedLxd, "get", found)
    monkeypatch.setattr(SimulatedLxd, "_set_state", change)
    site.crash("web")
    site.watch(200)
    last = site.journal.history("web")[-1]
    assert last.outcome is Outcome.DONE, "\n".join(site.log)
    # What ran has had its services started, which nobody does in one that was taken for stopped.
    how = {"cold": "booted", "warm": "was running", "frozen": "thawed", "hot": "was running"}[mode]
    assert any(f"container web on sec1: {how}" in line for line in site.log), "\n".join(site.log)


def test_one_whose_monitor_stays_silent_is_told(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site, get = Observed(memory_path, world={"mode": "warm"}), SimulatedLxd.get
    site.watch(20)

    def found(lxd: SimulatedLxd, instance: str) -> Instance | None:
        there = get(lxd, instance)
        return there and replace(there, status=ERROR, running=False)

    monkeypatch.setattr(SimulatedLxd, "get", found)
    site.crash("web")
    site.watch(200)
    assert any("container web has status Error for over" in line for line in site.log), "\n".join(site.log)
