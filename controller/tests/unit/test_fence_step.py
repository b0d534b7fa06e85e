"""The fence of one service: what is powered off or destroyed, what is left alone, and what counts as a proof."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from set_clock import SetClock
from test_whereabouts import UUID, FakeHost, Stage

from vcrecovery.core.domain import Destroyed, DomainReading
from vcrecovery.core.episode import Episode, Request, Step, StepRecord
from vcrecovery.core.evidence import Confirmation, Failed, Fenced, ProvedBy
from vcrecovery.core.power import Power
from vcrecovery.errors import ExternalError
from vcrecovery.operations.failover_steps import FailoverSteps
from vcrecovery.plan.model import Fence

NOW = 1_000_000.0
WAY_OUT = "`vcrecovery failover web --primary-is-down web`"


class Host(FakeHost):
    """`kept_off`: how often it was told not to start the VM; `heeds`: whether a destroy ends it.

    `is_transient`: it is forgotten then; `starts_with_host`: it was set to.
    """

    kept_off = 0
    heeds = True
    is_transient = False
    starts_with_host = False

    def keep_off(self, uuid: str) -> bool:
        assert uuid == UUID
        self.kept_off += 1
        return self.reading.power is not Power.RUNNING

    def destroy(self, uuid: str, timeout: float | None = None) -> Destroyed:
        if not self.heeds:
            return Destroyed(ended=True)
        destroyed = super().destroy(uuid, timeout)
        if self.is_transient:
            self.reading = DomainReading(Power.ABSENT)
        return replace(destroyed, starts_with_host=self.starts_with_host)


class FenceStage(Stage):
    """The fence command works, and leaves a trace; the ports of `open` answer before it, those of `goes_on` after."""

    hv1: Host
    hv2: Host

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.trace = folder / "powered-off"
        self.set_fence(Fence(command=["touch", str(self.trace)], timeout=20))
        self.hv1, self.hv2 = Host("hv1", Power.RUNNING), Host("hv2")
        self.env.hosts = {"hv1": self.hv1, "hv2": self.hv2}  # type: ignore[dict-item]
        self.open: tuple[str, ...] = ()
        self.goes_on: tuple[str, ...] = ()
        self.asked = 0
        self.env.probes = self  # type: ignore[assignment]
        self.env.clock = SetClock(NOW)

    def set_fence(self, fence: Fence | None) -> None:
        hypervisors = self.env.plan.hypervisors
        hypervisors["hv1"] = hypervisors["hv1"].model_copy(update={"fence": fence})

    def alive(self, _address: str, _ports: object, _timeout: float) -> list[str]:
        if self.is_powered_off:
            return list(self.goes_on)
        self.asked += 1
        return list(self.open)

    def carry_out(self, request: Request, *steps: StepRecord) -> Fenced:
        episode = Episode(1, "web", 1, "a test", request, NOW - 60, steps)
        found = FailoverSteps(self.env, "web").carry_out(Step.FENCE, episode)
        assert isinstance(found, Fenced)
        return found

    @property
    def is_powered_off(self) -> bool:
        return self.trace.exists()


@pytest.fixture
def site(tmp_path: Path) -> FenceStage:
    return FenceStage(tmp_path)


def looked(power: Power, ago: float = 20.0) -> StepRecord:
    return StepRecord(Step.CONFIRM, NOW - ago, NOW - ago, True, Confirmation(power))


def tried(ago: float) -> StepRecord:
    return StepRecord(Step.FENCE, NOW - ago, NOW - ago, False, Failed("hv1 does not answer"))


AUTOMATIC = Request(automatic=True)


# -- a hypervisor that falls silent ----------------------------------------------------------------------------


def test_a_hypervisor_that_falls_silent_after_the_confirmation_is_powered_off(site: FenceStage) -> None:
    """Once it has been silent for as long as one must be: its libvirtd may have been restarted."""
    site.hv1.reading = DomainReading(Power.UNREACHABLE)
    steps = (looked(Power.SHUTOFF), tried(14.0))
    with pytest.raises(ExternalError, match="hypervisor hv1 does not answer"):
        site.carry_out(AUTOMATIC, *steps)
    assert not site.is_powered_off
    found = site.carry_out(AUTOMATIC, looked(Power.SHUTOFF), tried(15.0))
    assert (found.by, found.summary) == (ProvedBy.FENCE_COMMAND, "hv1 is off: it printed nothing")
    assert site.is_powered_off


def test_it_is_not_while_a_primary_on_it_answers(site: FenceStage) -> None:
    site.hv1.reading, site.open = DomainReading(Power.UNREACHABLE), ("127.0.0.1:80",)
    with pytest.raises(ExternalError, match=r"powering it off would end what does: web \(127\.0\.0\.1:80\)"):
        site.carry_out(AUTOMATIC, looked(Power.SHUTOFF), tried(15.0))
    assert not site.is_powered_off


def test_each_that_answers_is_named(site: FenceStage) -> None:
    site.hv1.reading, site.open = DomainReading(Power.UNREACHABLE), ("127.0.0.1:80",)
    site.env.plan.services["shop"] = site.env.plan.services["web"]
    with pytest.raises(ExternalError) as caught:
        site.carry_out(AUTOMATIC, looked(Power.SHUTOFF), tried(15.0))
    assert caught.value.message == (
        "hypervisor hv1 does not answer, but powering it off would end what does: "
        "web (127.0.0.1:80), shop (127.0.0.1:80)"
    )
    assert caught.value.hint == "run it again: it is re-checked before any action"
    assert not site.is_powered_off


def test_what_a_confirmation_has_just_asked_is_not_asked_again(site: FenceStage) -> None:
    site.hv1.reading = DomainReading(Power.UNREACHABLE)
    site.carry_out(AUTOMATIC, looked(Power.UNREACHABLE, 3.0))
    assert (site.is_powered_off, site.asked) == (True, 0)


def test_a_fence_command_that_ends_another_machine_proves_nothing(site: FenceStage) -> None:
    site.hv1.reading, site.goes_on = DomainReading(Power.UNREACHABLE), ("127.0.0.1:80",)
    with pytest.raises(
        ExternalError, match=r"says that it is off, but web \(127\.0\.0\.1:80\) answers; see which"
    ) as told:
        site.carry_out(AUTOMATIC, looked(Power.UNREACHABLE, 3.0))
    assert "--primary-is-down" in told.value.hint
    # Nor does it the next time, when the primary happens to say nothing.
    site.goes_on = ()
    site.trace.unlink()
    site.env.clock.sleep(3.0)
    site.carry_out(AUTOMATIC, looked(Power.UNREACHABLE, 3.0))
    assert site.is_powered_off


def test_nor_one_that_was_forced(site: FenceStage) -> None:
    """Of the others nobody has asked; the primary itself must be off."""
    site.hv1.reading, site.goes_on = DomainReading(Power.UNREACHABLE), ("127.0.0.1:80", "127.0.0.1:443")
    with pytest.raises(ExternalError, match=r"it is off, but web \(127\.0\.0\.1:80, 127\.0\.0\.1:443\) answers"):
        site.carry_out(Request(force=True), looked(Power.UNREACHABLE))


def test_what_answers_for_a_primary_that_was_proved_off_does_not_keep_its_hypervisor_on(site: FenceStage) -> None:
    """It came back with that, and must not serve."""
    site.hv1.reading, site.open = DomainReading(Power.UNREACHABLE), ("127.0.0.1:80",)
    site.goes_on = site.open
    proved = StepRecord(Step.FENCE, NOW - 50, NOW - 50, True, Fenced("hv1 was powered off"))
    site.carry_out(AUTOMATIC, looked(Power.UNREACHABLE, 55.0), proved)
    assert (site.is_powered_off, site.asked) == (True, 1)


def test_a_hypervisor_without_a_fence_command_is_looked_at_again_once_it_is_back(site: FenceStage) -> None:
    site.set_fence(None)
    with pytest.raises(ExternalError, match="hypervisor hv1 answers again, and says that the primary is running"):
        site.carry_out(AUTOMATIC, looked(Power.UNREACHABLE))
    assert site.hv1.destroyed == 0
    assert site.carry_out(Request(force=True), looked(Power.UNREACHABLE)).power is Power.SHUTOFF


def test_without_a_fence_command_a_silent_hypervisor_proves_nothing(site: FenceStage) -> None:
    site.set_fence(None)
    site.hv1.reading = DomainReading(Power.UNREACHABLE)
    with pytest.raises(ExternalError, match="hypervisor hv1 does not answer"):
        site.carry_out(AUTOMATIC, looked(Power.UNREACHABLE))
    assert not site.is_powered_off


def test_a_paused_copy_elsewhere_ends_with_the_hypervisor(site: FenceStage) -> None:
    """A migration was broken by the failure: the copy would run once its memory is complete."""
    site.hv1.reading, site.hv2.reading = DomainReading(Power.UNREACHABLE), DomainReading(Power.PAUSED)
    found = site.carry_out(AUTOMATIC, looked(Power.UNREACHABLE, 1.0))
    assert found.summary == "hv1 is off: it printed nothing; hv2: shutoff (destroyed)"
    assert (site.is_powered_off, site.hv2.destroyed) == (True, 1)


def test_a_hypervisor_that_does_not_say_whether_it_has_a_copy_is_named(site: FenceStage) -> None:
    site.hv2.reading = DomainReading(Power.UNREACHABLE)
    found = site.carry_out(AUTOMATIC, looked(Power.RUNNING))
    assert found.summary == "hv1: shutoff (destroyed); hv2 not asked: no answer"


def test_the_operators_word_touches_nothing(site: FenceStage) -> None:
    site.hv1.reading = DomainReading(Power.UNREACHABLE)
    found = site.carry_out(Request(primary_is_down=True, by="kim"), looked(Power.UNREACHABLE))
    assert (found.by, found.summary, found.power) == (ProvedBy.OPERATOR, "on the word of kim", None)
    assert not site.is_powered_off


# -- a standby that is kept serving ----------------------------------------------------------------------------


@pytest.mark.parametrize("ended", [0.0, 60.0])
def test_for_a_container_that_has_just_ended_nothing_is_powered_off(site: FenceStage, ended: float) -> None:
    site.hv1.reading = DomainReading(Power.UNREACHABLE)
    request = Request(automatic=True, again=True, began_at=NOW - ended)
    found = site.carry_out(request, looked(Power.UNREACHABLE))
    assert found.by is ProvedBy.STANDBY
    assert found.summary == "hv1 does not answer; fenced before, and its standby has served since"
    assert not site.is_powered_off


@pytest.mark.parametrize("ended", [61.0, -1.0])
def test_one_that_ended_longer_ago_needs_a_proof(site: FenceStage, ended: float) -> None:
    site.hv1.reading = DomainReading(Power.UNREACHABLE)
    with pytest.raises(ExternalError) as caught:
        site.carry_out(Request(automatic=True, again=True, began_at=NOW - ended), looked(Power.UNREACHABLE))
    assert caught.value.message == "web cannot be fenced again: hypervisor hv1 does not answer"
    assert WAY_OUT in caught.value.hint
    assert not site.is_powered_off


def test_a_primary_that_runs_again_beside_it_is_destroyed(site: FenceStage) -> None:
    found = site.carry_out(Request(automatic=True, again=True, began_at=NOW), looked(Power.RUNNING))
    assert (found.by, found.power) == (ProvedBy.LIBVIRT, Power.SHUTOFF)


# -- a destroy that proves nothing -----------------------------------------------------------------------------


def test_a_vm_that_does_not_end_is_no_proof(site: FenceStage) -> None:
    site.hv1.heeds = False
    with pytest.raises(ExternalError) as caught:
        site.carry_out(AUTOMATIC, looked(Power.RUNNING))
    assert caught.value.message == f"VM {UUID} is still running on hv1 after its destroy"
    assert caught.value.hint == "power it off by hand, then run it again"


@pytest.mark.parametrize("starts_with_host", [True, False])
def test_whether_it_started_with_its_host_is_written_down_for_the_way_back(
    site: FenceStage, starts_with_host: bool
) -> None:
    site.hv1.starts_with_host = starts_with_host
    assert site.carry_out(AUTOMATIC, looked(Power.RUNNING)).starts_with_host is starts_with_host


def test_a_vm_that_takes_a_moment_to_end_is_waited_for(site: FenceStage, monkeypatch: pytest.MonkeyPatch) -> None:
    site.hv1.heeds = False
    clock = site.env.clock
    ends_at, read = clock.steady() + 1.0, site.hv1.read

    def later(uuid: str) -> DomainReading:
        return DomainReading(Power.SHUTOFF, "destroyed") if clock.steady() >= ends_at else read(uuid)

    monkeypatch.setattr(site.hv1, "read", later)
    assert site.carry_out(AUTOMATIC, looked(Power.RUNNING)).power is Power.SHUTOFF
    # As long as the plan's `timeouts.fence`, and no longer.
    ends_at = clock.steady() + 1.2
    with pytest.raises(ExternalError, match="is still running on hv1 after its destroy"):
        site.carry_out(AUTOMATIC, looked(Power.RUNNING))


@pytest.mark.parametrize("power", [Power.RUNNING, Power.PAUSED])
def test_a_vm_that_left_between_the_look_and_the_fence_is_fenced_where_it_is(
    site: FenceStage, power: Power, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its hypervisor has it no more; the other one has it only after it was asked for copies."""

    def arrives(_uuid: str, _timeout: float | None = None) -> Destroyed:
        site.hv1.reading, site.hv2.reading = DomainReading(Power.ABSENT), DomainReading(power)
        return Destroyed()

    monkeypatch.setattr(site.hv1, "destroy", arrives)
    monkeypatch.setattr(site.env.whereabouts, "copies", lambda _service, _host: ([], []))
    with pytest.raises(ExternalError) as caught:
        site.carry_out(AUTOMATIC, looked(Power.RUNNING))
    assert str(caught.value) == f"VM {UUID} is on hv2 now; run it again: it is fenced there"


def test_one_that_ran_and_that_no_hypervisor_has_now_may_run_elsewhere(site: FenceStage) -> None:
    site.hv1.reading = DomainReading(Power.ABSENT)
    with pytest.raises(ExternalError) as caught:
        site.carry_out(AUTOMATIC, looked(Power.RUNNING), tried(10.0), looked(Power.ABSENT))
    assert caught.value.message == (
        f"VM {UUID} ran when it was seen last, and no hypervisor of the plan has it now: it may run elsewhere"
    )
    assert caught.value.hint.startswith("add the hypervisor that has it to the plan, then run it again; or, ")
    assert WAY_OUT in caught.value.hint


@pytest.mark.parametrize("power", [Power.SHUTOFF, Power.ABSENT])
def test_one_that_was_migrated_and_that_no_hypervisor_has_now_runs_elsewhere(site: FenceStage, power: Power) -> None:
    site.hv1.reading = DomainReading(power, "migrated")
    with pytest.raises(ExternalError) as caught:
        site.carry_out(AUTOMATIC, looked(power))
    assert caught.value.message == f"VM {UUID} was migrated from hv1: it may run elsewhere"
    assert caught.value.hint == "add the hypervisor that has it to the plan, then run it again"


@pytest.mark.parametrize("power", [Power.RUNNING, Power.PAUSED])
def test_one_that_is_transient_is_forgotten_with_its_destroy(site: FenceStage, power: Power) -> None:
    site.hv1.reading, site.hv1.is_transient = DomainReading(power), True
    assert site.carry_out(AUTOMATIC, looked(power)).power is Power.ABSENT


def test_one_that_no_hypervisor_has_is_off(site: FenceStage) -> None:
    site.hv1.reading = DomainReading(Power.ABSENT, "crashed")
    assert site.carry_out(AUTOMATIC, looked(Power.ABSENT)).power is Power.ABSENT


# -- a switchover: it has shut down by itself ------------------------------------------------------------------

PLANNED = Request(planned=True)


def shut(ago: float | None, ok: bool = True) -> StepRecord:
    return StepRecord(Step.SHUTDOWN, NOW - 90, None if ago is None else NOW - ago, ok)


@pytest.mark.parametrize("reason", ["shutdown", ""])
def test_a_vm_that_has_shut_down_is_kept_off(site: FenceStage, reason: str) -> None:
    site.hv1.reading = DomainReading(Power.SHUTOFF, reason)
    found = site.carry_out(PLANNED, shut(1.0))
    assert (found.by, found.power) == (ProvedBy.LIBVIRT, Power.SHUTOFF)
    assert found.summary == f"hv1: {site.hv1.reading}, and stays so"
    assert (site.hv1.kept_off, site.hv1.destroyed) == (1, 0)


@pytest.mark.parametrize(
    ("here", "there"),
    [
        (DomainReading(Power.RUNNING), Power.ABSENT),
        (DomainReading(Power.PAUSED), Power.ABSENT),
        (DomainReading(Power.ABSENT), Power.ABSENT),
        # It ran once more, and has written.
        (DomainReading(Power.SHUTOFF, "destroyed"), Power.ABSENT),
        (DomainReading(Power.SHUTOFF, "crashed"), Power.ABSENT),
        (DomainReading(Power.SHUTOFF, "shutdown"), Power.RUNNING),
        (DomainReading(Power.SHUTOFF, "shutdown"), Power.PAUSED),
    ],
)
def test_one_that_ran_again_is_not_ended(site: FenceStage, here: DomainReading, there: Power) -> None:
    site.hv1.reading, site.hv2.reading = here, DomainReading(there)
    with pytest.raises(ExternalError, match="it ran again after its shutdown"):
        site.carry_out(PLANNED, shut(1.0))
    assert (site.hv1.destroyed, site.hv2.destroyed, site.is_powered_off) == (0, 0, False)


def test_nor_one_that_starts_in_that_moment(site: FenceStage, monkeypatch: pytest.MonkeyPatch) -> None:
    site.hv1.reading = DomainReading(Power.SHUTOFF, "shutdown")
    monkeypatch.setattr(site.hv1, "keep_off", lambda _uuid: False)
    with pytest.raises(ExternalError, match="it ran again after its shutdown"):
        site.carry_out(PLANNED, shut(1.0))


@pytest.mark.parametrize("ago", [0.0, 60.0])
def test_a_hypervisor_that_fails_after_the_shutdown_holds_nothing_up(site: FenceStage, ago: float) -> None:
    site.hv1.reading = DomainReading(Power.UNREACHABLE)
    found = site.carry_out(PLANNED, shut(ago))
    assert (found.by, found.power) == (ProvedBy.LIBVIRT, Power.SHUTOFF)
    assert found.summary == f"hv1 does not answer; {ago:.0f} s ago the VM was off"
    assert not site.is_powered_off


@pytest.mark.parametrize("shutdown", [shut(60.1), shut(-1.0), shut(None), shut(1.0, ok=False), None])
def test_a_shutdown_of_long_ago_or_of_nobody_knows_when_proves_nothing(
    site: FenceStage, shutdown: StepRecord | None
) -> None:
    site.hv1.reading = DomainReading(Power.UNREACHABLE)
    with pytest.raises(ExternalError, match="hypervisor hv1 does not answer"):
        site.carry_out(PLANNED, *([shutdown] if shutdown else []))
    assert not site.is_powered_off
