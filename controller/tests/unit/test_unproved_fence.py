"""A fence that was tried and is not proved: what the next try does to a hypervisor that is back, or only away."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from vcrecovery.core.domain import Destroyed, DomainReading
from vcrecovery.core.episode import Episode, Outcome, Request, Step, StepRecord, Symptom
from vcrecovery.core.evidence import Confirmation, Failed, Fenced, Proof
from vcrecovery.core.power import Power
from vcrecovery.detect.answers import Finding, answer_of
from vcrecovery.errors import ExternalError
from vcrecovery.operations import locked
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.failover_steps import FailoverSteps
from vcrecovery.operations.unattended import Unattended
from vcrecovery.plan.load import load_plan


class Host:
    """A hypervisor that says one thing until it has destroyed the VM."""

    name = "hv1"

    def __init__(self, power: Power) -> None:
        self.power = power

    def read(self, _uuid: str) -> DomainReading:
        if self.power is Power.UNREACHABLE:
            raise ExternalError("hypervisor hv1 does not answer")
        return DomainReading(self.power)

    def destroy(self, _uuid: str, _timeout: float) -> Destroyed:
        was = self.read("").power
        self.power = Power.SHUTOFF
        return Destroyed(ended=was is not Power.SHUTOFF)


class Ports:
    """Those that answer, of whichever address."""

    open: tuple[str, ...] = ()

    def alive(self, _address: str, _ports: object, _timeout: float) -> list[str]:
        return list(self.open)


@pytest.fixture
def ports() -> Ports:
    return Ports()


@pytest.fixture
def env(plan_file: Path, tmp_path: Path, ports: Ports) -> Environment:
    """The fence command works, and leaves a trace."""
    command = f"[touch, {tmp_path}/powered-off]"
    text = plan_file.read_text()
    plan_file.write_text(text.replace('no-libvirt"}', f'no-libvirt", fence: {{command: {command}}}}}'))
    env = Environment(load_plan(plan_file))
    env.probes = ports  # type: ignore[assignment]
    return env


def confirmed(power: Power) -> StepRecord:
    return StepRecord(Step.CONFIRM, 1.0, 1.0, True, Confirmation(power))


def fence(env: Environment, power: Power, *steps: StepRecord, force: bool = False) -> Power:
    """One try of the fence while the hypervisor says `power`; what it says then."""
    host = Host(power)
    env.hosts["hv1"] = host  # type: ignore[assignment]
    now = env.clock.now()
    episode = Episode(1, "web", 1, "hv1 does not answer", Request(automatic=not force, force=force), now, steps)
    FailoverSteps(env, "web").carry_out(Step.FENCE, episode)
    return host.power


TRIED = StepRecord(Step.FENCE, 2.0, 2.0, False, Failed("no route to the BMC"))


@pytest.mark.parametrize("before", [(), (confirmed(Power.UNREACHABLE), TRIED)])
def test_a_hypervisor_that_is_back_since_the_look_is_looked_at_again(
    env: Environment, tmp_path: Path, before: tuple[StepRecord, ...]
) -> None:
    with pytest.raises(ExternalError, match="answers again, and says that the primary is running"):
        fence(env, Power.RUNNING, *before, confirmed(Power.UNREACHABLE))
    assert env.hosts["hv1"].read("").power is Power.RUNNING
    assert not (tmp_path / "powered-off").exists()


@pytest.mark.parametrize(
    ("power", "seen", "force"),
    [
        (Power.RUNNING, Power.UNREACHABLE, True),
        (Power.RUNNING, Power.RUNNING, False),
        (Power.PAUSED, Power.UNREACHABLE, False),
        (Power.SHUTOFF, Power.UNREACHABLE, False),
    ],
)
def test_what_was_seen_not_to_serve_is_destroyed(env: Environment, power: Power, seen: Power, force: bool) -> None:
    assert fence(env, power, confirmed(seen), force=force) is Power.SHUTOFF


def test_a_hypervisor_that_is_only_away_is_not_powered_off_by_the_second_try(env: Environment, tmp_path: Path) -> None:
    """One VM has crashed, and then libvirtd was restarted: that its hypervisor is silent was nobody's reason."""
    tried = StepRecord(Step.FENCE, env.clock.now(), env.clock.now(), False, Failed("hv1 does not answer"))
    with pytest.raises(ExternalError, match="hypervisor hv1 does not answer"):
        fence(env, Power.UNREACHABLE, confirmed(Power.SHUTOFF), tried, confirmed(Power.UNREACHABLE))
    assert not (tmp_path / "powered-off").exists()


def test_a_hypervisor_that_was_silent_from_the_first_is_powered_off_by_the_second_try(
    env: Environment, tmp_path: Path
) -> None:
    fence(env, Power.UNREACHABLE, confirmed(Power.UNREACHABLE), TRIED, confirmed(Power.UNREACHABLE))
    assert (tmp_path / "powered-off").exists()


def test_a_hypervisor_is_not_powered_off_when_a_port_on_it_answers_since_the_look(
    env: Environment, ports: Ports, tmp_path: Path
) -> None:
    ports.open = ("10.10.0.10:80",)
    with pytest.raises(ExternalError, match=r"would end what does: web \(10\.10\.0\.10:80\)"):
        fence(env, Power.UNREACHABLE, confirmed(Power.UNREACHABLE))
    assert not (tmp_path / "powered-off").exists()


def test_what_was_proved_off_before_and_is_back_is_destroyed(env: Environment) -> None:
    """Nobody looks at it anew any more: each try would say that somebody should, and the failover would never go on."""
    proved = StepRecord(Step.FENCE, 2.0, 2.0, True, Fenced("hv1 was powered off"))
    assert fence(env, Power.RUNNING, confirmed(Power.UNREACHABLE), proved) is Power.SHUTOFF


@pytest.mark.parametrize(
    "before",
    [
        (confirmed(Power.UNREACHABLE), TRIED, confirmed(Power.RUNNING)),
        (confirmed(Power.UNREACHABLE), replace(TRIED, ok=True)),
    ],
)
def test_one_that_has_come_back_since_is_not_powered_off_while_a_neighbour_on_it_answers(
    env: Environment, tmp_path: Path, before: tuple[StepRecord, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(env.neighbours, "answering", lambda *_args, **_words: ("db:5432",))
    with pytest.raises(ExternalError, match="hypervisor hv1 does not answer"):
        fence(env, Power.UNREACHABLE, *before)
    assert not (tmp_path / "powered-off").exists()


class QuickClock:
    """Nobody waits between two tries."""

    def now(self) -> float:
        return 1000.0

    def steady(self) -> float:
        return 1000.0

    def sleep(self, _seconds: float) -> None: ...


class Quiet:
    def begun(self, episode: Episode, step: Step, sentence: str) -> None: ...

    def ended(self, episode: Episode, step: Step, at: float, evidence: Proof) -> None: ...

    def failed(self, episode: Episode, step: Step, at: float, error: str) -> None: ...

    def waiting(self, episode: Episode, at: float, sentence: str) -> None: ...

    def further(self, episode: Episode, at: float, sentence: str) -> None: ...


def test_what_another_controller_has_withdrawn_between_two_tries_is_not_begun_anew(
    plan_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class TheFenceFails:
        def __init__(self, _env: Environment, _name: str, _tell: object, _let_go: object) -> None: ...

        secondary = "sec1"

        def epoch_elsewhere(self) -> int:
            return 0

        def run_hooks(self, *_said: object) -> tuple[()]:
            return ()

        def carry_out(self, step: Step, _episode: Episode) -> Proof:
            if step is Step.FENCE:
                raise ExternalError("no route to the BMC")
            return Confirmation(Power.SHUTOFF, reason="crashed", freshness=1.0)

    monkeypatch.setattr(locked, "FailoverSteps", TheFenceFails)
    env = Environment(load_plan(plan_file), QuickClock())

    def another(_error: ExternalError) -> None:
        found = env.journal.state("web").open_episode
        assert found is not None
        env.journal.close(found, Outcome.WITHDRAWN, "its primary serves", 1000.0)

    episode = Unattended(env, Quiet())("web", "a test", 999.0, Symptom.ENDED, on_trouble=another)
    assert episode.outcome is Outcome.WITHDRAWN
    assert len(env.journal.history("web")) == 1


@pytest.mark.parametrize(
    ("outcome", "final"),
    [(Outcome.DONE, True), (Outcome.REFUSED, True), (Outcome.FALSE_ALARM, False), (Outcome.WITHDRAWN, False)],
)
def test_what_was_no_failure_after_all_is_looked_at_again_when_zabbix_repeats_it(outcome: Outcome, final: bool) -> None:
    closed = Episode(1, "web", 1, "a test", Request(), 1.0, (), 2.0, outcome, "so it is")
    assert answer_of("", [Finding("web", "", closed)]).final is final


def test_a_primary_that_was_migrated_since_the_look_is_not_proved_off(env: Environment) -> None:
    """It is off here, and serves on another hypervisor."""

    class Migrated(Host):
        def destroy(self, _uuid: str, _timeout: float) -> Destroyed:
            self.power = Power.SHUTOFF
            return Destroyed()

        def read(self, _uuid: str) -> DomainReading:
            return DomainReading(self.power, "migrated" if self.power is Power.SHUTOFF else "")

    env.hosts["hv1"] = Migrated(Power.RUNNING)  # type: ignore[assignment]
    forced = Episode(1, "web", 1, "asked for", Request(force=True), 1.0, (confirmed(Power.RUNNING),))
    with pytest.raises(ExternalError, match="was migrated"):
        FailoverSteps(env, "web").carry_out(Step.FENCE, forced)
