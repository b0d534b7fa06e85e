"""`vcrecovery failover --host` on the simulated site: what its services share."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from simulated.environment import SimulatedEnvironment
from simulated.site import Site
from vcrecovery.core.service_state import Side
from vcrecovery.store.lock import service_lock


def test_one_that_begins_late_shares_the_fence(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fenced: list[str] = []
    power_off = SimulatedEnvironment.power_off

    def counted(env: SimulatedEnvironment, host: str, command: list[str], timeout: float) -> str:
        fenced.append(host)
        return power_off(env, host, command, timeout)

    monkeypatch.setattr(SimulatedEnvironment, "power_off", counted)
    site = Site(memory_path, {"web": {"host": "hv1"}, "db": {"host": "hv1"}}, world={"fence_command": True})
    for name in ("web", "db"):
        site.world.services[name].hypervisor_answers = False
        site.crash(name)
    held = ExitStack()
    # Somebody has db for a short act, and the other one has fenced hv1 by its end.
    held.enter_context(service_lock(site.plan.state_dir, "db", brief=True))
    site.scheduler.at(site.scheduler.time + 5, held.close)
    site.failover("host", "hv1")
    assert [site.journal.state(name).side for name in ("web", "db")] == [Side.STANDBY, Side.STANDBY], site.log
    assert fenced == ["hv1"], site.log
