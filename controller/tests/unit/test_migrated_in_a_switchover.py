"""A VM that is migrated during a switchover: it is not off where it was, and nobody starts a second one there."""

from __future__ import annotations

from pathlib import Path

import pytest
from set_clock import SetClock
from test_whereabouts import UUID, FakeHost, Stage

from vcrecovery.core.domain import DomainReading
from vcrecovery.core.episode import Episode, Request, Step, StepRecord
from vcrecovery.core.evidence import Failed, Proof
from vcrecovery.core.power import Power
from vcrecovery.drivers.probe import Result, Target
from vcrecovery.errors import ExternalError
from vcrecovery.operations.failover_steps import FailoverSteps

NOW = 1_000_000.0
MIGRATED = DomainReading(Power.SHUTOFF, "migrated")


class Host(FakeHost):
    """`asked`: to shut down; `then`: what it is from then on; `started`: by us."""

    asked = started = False
    then: DomainReading | None = None

    def shut_down(self, uuid: str) -> bool:
        assert uuid == UUID
        self.asked, self.reading = True, self.then or self.reading
        return True

    def start(self, uuid: str, *, with_host: bool) -> bool:
        assert (uuid, with_host) == (UUID, with_host)
        self.started = True
        return True


class Moving(Stage):
    hv1: Host
    hv2: Host

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.hv1, self.hv2 = Host("hv1", Power.RUNNING), Host("hv2")
        self.env.hosts = {"hv1": self.hv1, "hv2": self.hv2}  # type: ignore[dict-item]
        self.env.probes = self  # type: ignore[assignment]
        self.env.clock = SetClock(NOW)

    def ask_all(self, targets: list[Target], _timeout: float) -> list[Result]:
        """None answers."""
        return [Result(address, "connection refused", reached=False) for address, _ in targets]

    def carry_out(self, step: Step, *steps: StepRecord) -> Proof:
        episode = Episode(1, "web", 1, "a test", Request(planned=True), NOW - 60, steps)
        return FailoverSteps(self.env, "web").carry_out(step, episode)


@pytest.fixture
def site(tmp_path: Path) -> Moving:
    return Moving(tmp_path)


@pytest.mark.parametrize("power", [Power.RUNNING, Power.ABSENT])
def test_one_that_is_migrated_meanwhile_has_not_shut_down(site: Moving, power: Power) -> None:
    """It runs on, on a hypervisor of the plan or on another one."""
    site.hv1.then, site.hv2.reading = MIGRATED, DomainReading(power)
    with pytest.raises(ExternalError, match="has left hv1 while it was shut down"):
        site.carry_out(Step.SHUTDOWN)
    assert site.hv1.asked


def test_one_that_has_shut_down_has(site: Moving) -> None:
    site.hv1.then = DomainReading(Power.SHUTOFF, "shutdown")
    assert "shutoff (shutdown)" in site.carry_out(Step.SHUTDOWN).summary


def test_one_that_was_migrated_to_nobody_knows_where_is_not_started_a_second_time(site: Moving) -> None:
    site.hv1.reading = MIGRATED
    failed = StepRecord(Step.SHUTDOWN, NOW - 9, NOW - 8, False, Failed("it has left hv1"))
    with pytest.raises(ExternalError) as caught:
        site.carry_out(Step.TAKE_BACK, failed)
    assert "VM 6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0001 was migrated from hv1: it may run elsewhere" in caught.value.message
    assert not site.hv1.started


def test_one_that_is_off_is_started_again(site: Moving) -> None:
    site.hv1.reading = DomainReading(Power.SHUTOFF, "shutdown")
    assert site.carry_out(Step.TAKE_BACK).summary == "hv1: VM started again"
    assert site.hv1.started
