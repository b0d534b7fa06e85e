"""A simulated outside with a virtual clock, around the real core, journal and executor.

The promises are checked at every act: whoever breaks one fails the test at that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vcrecovery.detect.cpu import Suspicion
from vcrecovery.detect.verdict import failed_hosts, judge
from vcrecovery.detect.watch import FALSE_ALARM_DELAY, cause_of
from vcrecovery.errors import BusyError, OutsideError, RefusedError, VCRecoveryError
from vcrecovery.recover.failover import automatic, fail_over
from vcrecovery.recover.journal import Journal
from vcrecovery.recover.outside import ages_of
from vcrecovery.recover.states import OFF, Doubt, Episode, Outcome, Pause, Policy, Power, Request, Side, Step
from vcrecovery.sync.freshness import Freshness
from vcrecovery.sync.restore_points import RestorePoint, find


class KilledError(BaseException):
    """The controller is killed: nothing of it runs any more, not even its handlers."""


class VirtualClock:
    """Time that passes only when somebody waits. Changes of the world happen on the way.

    `time` only grows; what a clock shows of it is `set_by` seconds beside it.
    """

    def __init__(self) -> None:
        self.time = 0.0
        self.set_by = 0.0
        self.changes: list[tuple[float, Callable[[], None]]] = []

    def now(self) -> float:
        return self.time + self.set_by

    def steady(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        end = self.time + seconds
        while self.changes and min(at for at, _ in self.changes) <= end:
            at, change = min(self.changes, key=lambda entry: entry[0])
            self.changes.remove((at, change))
            self.time = max(self.time, at)
            change()
        self.time = max(self.time, end)


@dataclass
class SimulatedWorld:
    """The outside of one service."""

    power: Power = Power.RUNNING
    reason: str = ""
    hypervisor_answers: bool = True
    #: Per cent of the primary's CPUs, and since when.
    cpu: float = 5.0
    cpu_since: float = 0.0
    silent_since: float | None = None
    fence_command: bool = False
    fence_command_works: bool = True
    neighbours: tuple[str, ...] = ()
    primary_ports_open: bool = True
    standby_exists: bool = True
    standby_running: bool = False
    standby_ports_open_after: float = 1.0
    lxd_answers: bool = True
    dns_answers: bool = True
    dns_key_good: bool = True
    dns_address: str = "primary"
    dns_epoch: int = 0
    heartbeat_at: float | None = 0.0
    started_at: float = -1.0
    probed_epoch: int = 0
    starts: int = 0
    switches: int = 0
    operators_word: bool = False
    restore_points: tuple[str, ...] = ()
    #: What is in the standby's tree: what was synced, a restore point, or half of one.
    tree: str = "synced"
    restores: int = 0
    steps: list[str] = field(default_factory=list)

    @property
    def reading(self) -> tuple[Power, str]:
        return (self.power, self.reason) if self.hypervisor_answers else (Power.UNREACHABLE, "")

    @property
    def open_ports(self) -> list[str]:
        return ["primary:80"] if self.power is Power.RUNNING and self.primary_ports_open else []


class SimulatedActuator:
    """Acts on a SimulatedWorld; each act takes a little time."""

    def __init__(
        self, world: SimulatedWorld, clock: VirtualClock, boundary: Callable[[str], None], policy: Policy
    ) -> None:
        self.policy = policy
        self.world = world
        self.clock = clock
        self.boundary = boundary

    def epoch_elsewhere(self) -> int:
        return self.world.dns_epoch if self.world.dns_answers else 0

    def carry_out(self, step: Step, episode: Episode) -> Mapping[str, Any]:
        self.boundary(f"before {step}")
        evidence: Mapping[str, Any] = getattr(self, f"_{step}")(episode)
        self.world.steps.append(step.value)
        self.boundary(f"after {step}")
        return evidence

    def _confirm(self, episode: Episode) -> Mapping[str, Any]:
        self.clock.sleep(0.2)
        power, reason = self.world.reading
        open_ports = self.world.open_ports
        doubtful = episode.request.doubt in (Doubt.CPU_ZERO, Doubt.CPU_HIGH)
        stamped = self.world.heartbeat_at
        began_at = episode.opened_at - self.policy.noticed_after(episode.request.doubt)
        fresh = Freshness(stamped, "no heartbeat has arrived" if stamped is None else "", stamped)
        ages = ages_of(fresh, began_at=began_at, noticed_at=episode.opened_at, now=self.clock.now())
        return {
            "power": power.value,
            "reason": reason,
            "detail": "hypervisor hv1 does not answer" if power is Power.UNREACHABLE else "",
            "open_ports": open_ports,
            "freshness": ages.files,
            "freshness_detail": ages.detail,
            "heard": ages.heard,
            "cpu": self.world.cpu if doubtful and power is Power.RUNNING else None,
            "fence_command": self.world.fence_command,
            "neighbours": list(self.world.neighbours) if power is Power.UNREACHABLE else [],
            "restore_asked": episode.request.restore_point,
            "restore_problem": self.restore_problem(episode),
            "summary": f"{power}{f' ({reason})' if reason else ''}, ports {'open' if open_ports else 'closed'}",
        }

    def _fence(self, episode: Episode) -> Mapping[str, Any]:
        self.clock.sleep(0.1)
        if episode.request.primary_is_down:
            self.world.operators_word = True
            return {"summary": "on the operator's word"}
        if not self.world.hypervisor_answers and self.world.fence_command:
            return self._power_off()
        if not self.world.hypervisor_answers:
            raise OutsideError("hypervisor hv1 does not answer")
        if self.world.power not in OFF:
            self.world.power, self.world.reason = Power.SHUTOFF, "destroyed"
        return {"summary": f"{self.world.power}"}

    def _power_off(self) -> Mapping[str, Any]:
        self.clock.sleep(2.0)
        if not self.world.fence_command_works:
            raise OutsideError("hypervisor hv1 was not fenced: power-off failed with status 1: no route to the BMC")
        if self.world.power not in OFF:
            self.world.power, self.world.reason = Power.SHUTOFF, "crashed"
        return {"summary": "hv1 is off: Chassis Power is off"}

    def _wanted(self, episode: Episode) -> RestorePoint:
        points = [RestorePoint(float(number), name) for number, name in enumerate(self.world.restore_points)]
        return find(points, "web", episode.request.restore_point or "")

    def restore_problem(self, episode: Episode) -> str:
        if episode.request.restore_point is None:
            return ""
        try:
            self._wanted(episode)
        except RefusedError as error:
            return error.message
        return ""

    def _restore(self, episode: Episode) -> Mapping[str, Any]:
        point = self._wanted(episode)
        if not self.world.lxd_answers:
            raise OutsideError("LXD on secondary sec1 does not answer")
        assert self.world.power in OFF or self.world.operators_word, "a standby is restored while its primary may live"
        if self.world.standby_running:
            raise OutsideError("container web is running: a restore would throw away what it has written")
        self.world.tree = "half"
        self.clock.sleep(1.0)
        self.boundary("in the middle of restore")
        self.world.tree = point.name
        self.world.restores += 1
        return {"summary": f"to {point.name}", "asked": episode.request.restore_point, "restore_point": point.name}

    def _start(self, episode: Episode) -> Mapping[str, Any]:
        self.clock.sleep(0.5)
        assert self.world.tree != "half", "a standby starts from half a restore point"
        if episode.request.restore_point is not None:
            assert self.world.tree == self._wanted(episode).name, "a standby starts from what was not asked for"
        if not self.world.lxd_answers:
            raise OutsideError("LXD on secondary sec1 does not answer")
        if not self.world.standby_exists:
            raise OutsideError("secondary sec1 has no container web")
        assert self.world.power in OFF or self.world.operators_word, "a standby starts while its primary may live"
        self._run_standby()
        return {"summary": "container web on sec1"}

    def _run_standby(self) -> None:
        if self.world.standby_running:
            return
        self.world.standby_running = True
        self.world.started_at = self.clock.time
        self.world.starts += 1

    def _probe(self, episode: Episode) -> Mapping[str, Any]:
        if not self.world.standby_running:
            if not self.world.lxd_answers:
                raise OutsideError("LXD on secondary sec1 does not answer")
            assert self.world.power in OFF or self.world.operators_word, "a standby is started beside its primary"
            self._run_standby()
        ready_at = self.world.started_at + self.world.standby_ports_open_after
        if ready_at > self.clock.time + 60:
            self.clock.sleep(60)
            raise OutsideError("the standby of web does not answer on port 80")
        self.clock.sleep(max(0.0, ready_at - self.clock.time))
        self.world.probed_epoch = episode.epoch
        return {"summary": "port 80"}

    def _switch(self, episode: Episode) -> Mapping[str, Any]:
        self.clock.sleep(0.01)
        if not self.world.dns_answers:
            raise OutsideError("DNS server ns1 does not answer")
        if not self.world.dns_key_good:
            raise OutsideError("DNS server ns1 rejects TSIG key vcr")
        if self.world.dns_epoch > episode.epoch:
            raise RefusedError(f"www belongs to epoch {self.world.dns_epoch} by now")
        assert self.world.probed_epoch == episode.epoch, "DNS moves to ports that were not seen open at this epoch"
        if (self.world.dns_address, self.world.dns_epoch) != ("standby", episode.epoch):
            self.world.dns_address, self.world.dns_epoch = "standby", episode.epoch
            self.world.switches += 1
        return {"summary": "www -> standby"}

    def _verify(self, _episode: Episode) -> Mapping[str, Any]:
        self.clock.sleep(0.01)
        if not self.world.dns_answers:
            raise OutsideError("DNS server ns1 does not answer")
        return {"summary": "on ns1"}


class Simulation:
    """One service, its world, and controllers that come and go."""

    def __init__(self, folder: Path, policy: Policy | None = None) -> None:
        self.path = folder / "journal.db"
        self.clock = VirtualClock()
        self.world = SimulatedWorld()
        self.policy = policy or Policy(max_staleness=60.0)
        self.log: list[str] = []
        self.kill_at: int | str | None = None
        self.boundaries = 0
        self._said = ""
        self._given_up: str | None = None
        self._not_before = 0.0
        #: After so many failed tries in a row, whoever watches the watcher ends it.
        self.patience: int | None = None
        self._at_work = False
        self.journal = Journal(self.path)

    def say(self, text: str) -> None:
        self.log.append(f"{self.clock.now():7.2f}  {text}")

    # -- the controller's life ---------------------------------------------------------------------------------

    def boundary(self, name: str) -> None:
        """A place between two acts, where a controller may be killed."""
        self.boundaries += 1
        if self.kill_at in (self.boundaries, name):
            self.kill_at = None
            raise KilledError(name)

    def begun(self, episode: Episode, step: Step, sentence: str) -> None:
        self.boundary(f"journalled {step}")
        self.say(f"{episode.service}: epoch {episode.epoch}: {step}: {sentence}")

    def ended(self, episode: Episode, step: Step, _at: float, evidence: Mapping[str, Any]) -> None:
        self.say(f"{episode.service}: epoch {episode.epoch}: {step} done: {evidence.get('summary', '')}")
        self.boundary(f"ended {step}")

    def held(self, episode: Episode, at: float, sentence: str) -> None:
        self.say(f"{episode.service}: epoch {episode.epoch}: {sentence}")

    def restart(self) -> None:
        self.journal = Journal(self.path)
        self._said, self._given_up, self._not_before = "", None, 0.0

    def _fail_over(self, cause: str, request: Request, detected_at: float | None = None) -> Episode:
        if self._at_work:
            raise BusyError("another controller is already at work on web")
        self._at_work = True
        try:
            return self._with_the_lock(cause, request, detected_at)
        finally:
            self._at_work = False

    def _with_the_lock(self, cause: str, request: Request, detected_at: float | None) -> Episode:
        state = self.journal.state("web")
        if state.side is Side.STANDBY and state.open_episode is None:
            # Between two tries an operator may have taken over.
            return self.journal.history("web", 1)[0]
        return fail_over(
            "web",
            cause,
            request,
            policy=self.policy,
            actuator=SimulatedActuator(self.world, self.clock, self.boundary, self.policy),
            journal=self.journal,
            clock=self.clock,
            teller=self,
            detected_at=detected_at,
        )

    def failover(self, **request: Any) -> None:
        """What `vcrecovery failover web` does."""
        state = self.journal.state("web")
        if state.side is Side.STANDBY and state.open_episode is None:
            self.say("operator: nothing to do: the standby serves")
            return
        words = [
            f" --{key.replace('_', '-')}" + ("" if value is True else f" {value}") for key, value in request.items()
        ]
        self.say("operator: failover web" + "".join(words))
        try:
            episode = self._fail_over("asked for by operator", Request(**request))
            self.say(f"operator: {episode.outcome}: {episode.reason}")
        except VCRecoveryError as error:
            self.say(f"operator: {type(error).__name__}: {error}")
        except KilledError as where:
            self.say(f"the controller is killed: {where}")
            self.restart()

    def watch(self, by: str = "watch") -> None:
        """One look of `vcrecovery watch`, and all that follows from it."""
        now = self.clock.now()
        state = self.journal.state("web")
        power, reason = self.world.reading
        if power is Power.RUNNING and state.seen_running_at is None:
            self.journal.saw_running("web", now)
            state = replace(state, seen_running_at=now)
        suspicion = self._suspicion(power, self.clock.time)
        verdict = judge(state, power, reason, now, suspicion=suspicion, cool_down=self.policy.cool_down)
        cause = cause_of(state, verdict)
        if cause is None:
            self._given_up = None
            if self._said != verdict.sentence:
                self._said = verdict.sentence
                self.say(f"watch: {verdict.sentence}")
            return
        if cause == self._given_up or self.clock.time < self._not_before:
            return
        self._said = ""
        self.say(f"watch: {cause}")

        def attempt() -> Episode:
            return self._fail_over(cause, Request(automatic=True, by=by, doubt=verdict.doubt), now)

        failures = 0

        def on_failure(error: OutsideError, delay: float) -> None:
            nonlocal failures
            failures += 1
            self.say(f"watch: {error}; again in {delay:.0f} s")
            if self.patience is not None and failures > self.patience:
                raise KilledError("its patience is over")

        try:
            episode = automatic(attempt, self.clock, on_failure)
            self.say(f"watch: {episode.outcome}: {episode.reason}")
            if episode.outcome is Outcome.FALSE_ALARM:
                self._not_before = self.clock.time + FALSE_ALARM_DELAY
        except RefusedError as error:
            self._given_up = cause
            self.say(f"watch: no failover: {error}")
        except BusyError as error:
            self.say(f"watch: {error}")
        except KilledError as where:
            self.say(f"the controller is killed: {where}")
            self.restart()

    def zabbix_event(self) -> None:
        """What `vcrecovery event` leads to: Zabbix has seen it running, and a new event is looked at anew."""
        state = self.journal.state("web")
        if state.seen_running_at is None and state.side is Side.PRIMARY:
            self.journal.saw_running("web", self.clock.now())
        self._given_up, self._not_before = None, 0.0
        self.watch(by="Zabbix")

    def _suspicion(self, power: Power, now: float) -> Suspicion | None:
        world, answering = self.world, tuple(self.world.open_ports)
        if world.hypervisor_answers:
            world.silent_since = None
        elif world.silent_since is None:
            world.silent_since = now
        silent = {} if world.silent_since is None else {"hv1": world.silent_since}
        if sentence := failed_hosts(silent, {"hv1": "main"}, self.policy.host_silent_for, now).get("hv1"):
            return Suspicion(Doubt.HOST, sentence, answering)
        lasted = now - world.cpu_since
        if power is Power.RUNNING and world.cpu == 0 and lasted >= self.policy.cpu_zero_for:
            return Suspicion(Doubt.CPU_ZERO, "has used no CPU for 60 s", answering)
        if power is Power.RUNNING and world.cpu >= self.policy.cpu_high and lasted >= self.policy.cpu_high_for:
            return Suspicion(Doubt.CPU_HIGH, "has used 95 % or more of its CPUs for 60 s", answering)
        return None

    # -- what a scenario says ----------------------------------------------------------------------------------

    def crash(self) -> None:
        self.world.power, self.world.reason = Power.SHUTOFF, "crashed"

    def stop_primary(self, reason: str) -> None:
        self.world.power, self.world.reason = Power.SHUTOFF, reason

    def start_primary(self) -> None:
        self.world.power, self.world.reason = Power.RUNNING, ""

    def serve_from_primary(self) -> None:
        """What `vcrecovery standby reset` does, once the operator has brought everything back."""
        self.start_primary()
        self.world.standby_running, self.world.dns_address = False, "primary"
        self.journal.serve_from_primary("web", self.clock.now())

    def acknowledge(self) -> None:
        self.journal.acknowledge("web", self.clock.now())

    def pause(self, seconds: float | None) -> None:
        now = self.clock.now()
        self.journal.pause("web", Pause(now, None if seconds is None else now + seconds, "work"))

    def resume(self) -> None:
        self.journal.pause("web", None)
