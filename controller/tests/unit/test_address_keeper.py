"""A virtual address that the controller's machine has lost is taken again, and nobody else's is."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest
from journal_cases import finish

from vcrecovery.core.episode import Request
from vcrecovery.drivers import virtual_ip
from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.lxd import Instance, LxdServer
from vcrecovery.drivers.virtual_ip import VirtualIp
from vcrecovery.errors import BusyError, RefusedError
from vcrecovery.operations.address_keeper import keep_addresses, keep_one
from vcrecovery.operations.environment import Environment
from vcrecovery.plan.load import load_plan
from vcrecovery.standby.container import ACTIVE, EPOCH_KEY, ROLE_KEY, STANDBY
from vcrecovery.store.lock import service_lock

NONE = "vcrnone0"


class Machine:
    """Takes the place of this machine's interface."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken: list[str] = []
        monkeypatch.setattr(virtual_ip, "holds", self._holds)
        monkeypatch.setattr(virtual_ip, "take", self._take)

    def _holds(self, wanted: VirtualIp, standby: str) -> bool:
        return bool(self.taken)

    def _take(self, wanted: VirtualIp, standby: str, clock: Clock) -> bool:
        self.taken.append(f"{wanted} -> {standby}")
        return True


@pytest.fixture
def env(plan_file: Path) -> Environment:
    text = plan_file.read_text().replace(
        "    max_staleness", f"    virtual_ip: {{address: 10.10.0.50/24, interface: {NONE}}}\n    max_staleness"
    )
    plan_file.write_text(text)
    return Environment(load_plan(plan_file))


def fail_over(env: Environment) -> None:
    episode = env.journal.open("web", "a test", Request(by="test"), 1.0)
    finish(env.journal, episode, 2.0)


def test_it_leads_nowhere_but_to_where_the_standby_was_started(
    env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not to the secondary that the plan names since."""
    machine = Machine(monkeypatch)
    fail_over(env)
    with env.journal.transaction() as db:
        db.execute("UPDATE service SET started_on = 'sec7' WHERE name = 'web'")
    assert not keep_one(env, "web")
    assert machine.taken == []


def test_one_that_was_lost_is_taken_again(env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    assert not keep_one(env, "web")
    assert machine.taken == []
    fail_over(env)
    assert keep_one(env, "web")
    assert machine.taken == [f"10.10.0.50 on {NONE} -> 10.20.0.10"]
    assert not keep_one(env, "web")
    assert len(machine.taken) == 1
    machine.taken.clear()
    env.journal.serve_from_primary("web", 3.0)
    assert not keep_one(env, "web")
    assert machine.taken == []


def says(monkeypatch: pytest.MonkeyPatch, role: str, epoch: int) -> None:
    """What LXD says of the standby."""
    config = {ROLE_KEY: role, EPOCH_KEY: str(epoch)}
    found = Instance("web", running=role == ACTIVE, status="Stopped", config=config, devices={})
    monkeypatch.setattr(LxdServer, "get", lambda _lxd, _name: found)


@pytest.mark.parametrize(("role", "epoch", "takes"), [(ACTIVE, 1, True), (STANDBY, 0, True), (STANDBY, 2, False)])
def test_one_whose_standby_stands_by_again_is_its_vms(
    env: Environment, monkeypatch: pytest.MonkeyPatch, role: str, epoch: int, takes: bool
) -> None:
    """Another controller has gone back to the VM, or this journal is an older one: a VM that reboots would lose it."""
    machine = Machine(monkeypatch)
    fail_over(env)
    says(monkeypatch, role, epoch)
    if takes:
        assert keep_one(env, "web")
    else:
        with pytest.raises(RefusedError, match="serves since epoch 1, and its container stands by"):
            keep_one(env, "web")
    assert bool(machine.taken) is takes


def test_one_that_somebody_works_on_is_left_alone(env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    fail_over(env)
    with service_lock(env.plan.state_dir, "web"), pytest.raises(BusyError):
        keep_one(env, "web")
    assert machine.taken == []


def test_a_failure_is_said_once(env: Environment, caplog: pytest.LogCaptureFixture) -> None:
    class SomeRounds(threading.Event):
        rounds = 0

        def wait(self, timeout: float | None = None) -> bool:
            self.rounds += 1
            if self.rounds > 3:
                self.set()
            return self.is_set()

    fail_over(env)
    with caplog.at_level(logging.WARNING):
        keep_addresses(env, SomeRounds())
    (record,) = caplog.records
    assert record.getMessage().startswith("web: its virtual address is not here: ")


def test_what_breaks_once_does_not_end_the_keeping(env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    machine, broken = Machine(monkeypatch), False

    class UntilItIsTaken(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            return self.is_set()

    def once(_wanted: VirtualIp, _standby: str) -> bool:
        nonlocal broken
        if not broken:
            broken = True
            raise ValueError("what `ip` printed is no JSON")
        stop.set()
        return False

    stop = UntilItIsTaken()
    monkeypatch.setattr(virtual_ip, "holds", once)
    fail_over(env)
    keep_addresses(env, stop)
    assert machine.taken
