"""What a confirmation does when something outside fails in the middle of it."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from set_clock import SetClock

from vcrecovery.core.domain import DomainReading, DomainUsage
from vcrecovery.core.episode import Episode, Request, Step, Symptom
from vcrecovery.core.evidence import Confirmation
from vcrecovery.core.power import Power
from vcrecovery.drivers.lxd import Instance
from vcrecovery.errors import ExternalError
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.failover_steps import FailoverSteps
from vcrecovery.operations.neighbours import Neighbours
from vcrecovery.plan.load import load_plan
from vcrecovery.standby.container import READY_KEY


class Host:
    """A hypervisor whose VM has crashed."""

    name = "hv1"

    def __init__(self) -> None:
        self.asked = 0
        self.jump: Callable[[], None] = lambda: None

    def read(self, _uuid: str) -> DomainReading:
        return DomainReading(Power.SHUTOFF, "crashed")

    def usage(self, uuids: Sequence[str]) -> dict[str, DomainUsage]:
        """Half a second of CPU time more at each question."""
        self.asked += 1
        if self.asked == 2:
            self.jump()
        used = self.asked * 5 * 10**8
        return {uuid: DomainUsage(DomainReading(Power.RUNNING), used, 1) for uuid in uuids}


class Lxd:
    """A secondary elsewhere, of whose containers no file can be read now."""

    name, is_here = "sec1", False

    def get(self, name: str) -> Instance:
        return Instance(name, running=False, status="Stopped", config={READY_KEY: "true"}, devices={})

    def template(self, _name: str, _template: str) -> bytes | None:
        return None

    def file(self, _name: str, _path: str) -> bytes | None:
        raise ExternalError("LXD on secondary sec1 does not answer")


@pytest.fixture
def env(plan_file: Path) -> Environment:
    plan_file.write_text(plan_file.read_text().replace("address: 10.10.0.10}", "address: 127.0.0.1}"))
    env = Environment(load_plan(plan_file))
    env.hosts = {"hv1": Host()}  # type: ignore[dict-item]
    env.lxd = {"sec1": Lxd()}  # type: ignore[dict-item]
    return env


@pytest.fixture
def outside(env: Environment) -> FailoverSteps:
    return FailoverSteps(env, "web")


def episode(*, automatic: bool) -> Episode:
    return Episode(1, "web", 1, "libvirt: shutoff (crashed)", Request(automatic=automatic), 1.0)


def test_an_age_that_cannot_be_read_now_is_read_again(outside: FailoverSteps) -> None:
    """A refusal would be the end: nobody calls again."""
    with pytest.raises(ExternalError, match="LXD on secondary sec1 does not answer"):
        outside.carry_out(Step.CONFIRM, episode(automatic=True))


def test_an_operator_is_told_at_once_that_it_cannot_be_read(outside: FailoverSteps) -> None:
    found = outside.carry_out(Step.CONFIRM, episode(automatic=False))
    assert isinstance(found, Confirmation)
    assert found.freshness is None
    assert found.freshness_detail == "LXD on secondary sec1 does not answer"


@pytest.fixture
def no_files_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine has opened as many files as it may."""

    def full(*_words: object) -> socket.socket:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(socket, "socket", full)


@pytest.mark.usefixtures("no_files_left")
def test_a_port_that_cannot_be_asked_is_not_a_port_that_does_not_answer(
    env: Environment, outside: FailoverSteps
) -> None:
    """Else whoever fails over hundreds of services at once would take all that serves beside them for dead."""
    for automatic in (True, False):
        with pytest.raises(ExternalError, match=r"127\.0\.0\.1:80 cannot be asked: too many open files"):
            outside.carry_out(Step.CONFIRM, episode(automatic=automatic))
    with pytest.raises(ExternalError, match="cannot be asked: too many open files"):
        env.neighbours.answering("hv1", besides="mail")


def test_neighbours_are_asked_again_whatever_the_clock_says(env: Environment) -> None:
    """What was seen before a clock was set back is not of just now."""
    clock, asked = SetClock(0.5, 1000.0), list[str]()
    neighbours = Neighbours(env.plan, clock, env.journal, env.whereabouts, env.probes, env.runtime)
    look = neighbours._look

    def counted(host: str) -> dict[str, list[str]]:
        asked.append(host)
        return look(host)

    neighbours._look = counted  # type: ignore[method-assign]
    neighbours.answering("hv1", besides="mail")
    neighbours.answering("hv1", besides="mail")
    assert len(asked) == 1
    clock.time, clock.set_by = 60.0, 941.0
    neighbours.answering("hv1", besides="mail")
    assert len(asked) == 2


def test_how_much_cpu_is_used_does_not_depend_on_a_clock_that_is_set(env: Environment) -> None:
    """Set back within the second in which it is measured, it would double what a guest uses."""
    clock = env.clock = SetClock(0.5, 1000.0)
    host = Host()
    host.jump = lambda: setattr(clock, "set_by", -0.5)
    env.hosts = {"hv1": host}  # type: ignore[dict-item]
    running = replace(episode(automatic=False), request=Request(symptom=Symptom.CPU_HIGH))
    found = FailoverSteps(env, "web").carry_out(Step.CONFIRM, running)
    assert isinstance(found, Confirmation)
    assert found.cpu == pytest.approx(50.0)
