"""A simulated outside with a virtual clock, around the real core, journal and executor.

The promises are checked at every act: whoever breaks one fails the test at that moment.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vcrecovery.cli.recovery import operators_word
from vcrecovery.detect import hold
from vcrecovery.detect.cpu import Suspicion
from vcrecovery.detect.verdict import Verdict, failed_hosts, judge
from vcrecovery.detect.watch import FALSE_ALARM_DELAY, cause_of
from vcrecovery.errors import BusyError, ExitCode, OutsideError, RefusedError, VCRecoveryError
from vcrecovery.recover.failover import ALONE, automatic, fail_over
from vcrecovery.recover.holds import HoldBook
from vcrecovery.recover.host_fence import PROVEN_FOR
from vcrecovery.recover.journal import Journal
from vcrecovery.recover.outside import ages_of
from vcrecovery.recover.several import LOOK_EVERY, Result, Several, fail_over_all
from vcrecovery.recover.states import (
    OFF,
    Doubt,
    Episode,
    Outcome,
    Pause,
    Policy,
    Power,
    Request,
    ServiceState,
    Side,
    Step,
)
from vcrecovery.recover.unattended import until_it_ends
from vcrecovery.sync.freshness import Freshness
from vcrecovery.sync.restore_points import RestorePoint, find
from virtual_time import KilledError, VirtualClock

__all__ = ["Fleet", "KilledError", "SimulatedActuator", "SimulatedWorld", "Simulation", "VirtualClock"]

#: Of each mode: seconds until START is over, what it says it did, and how much of a boot is left before the ports open.
MODES: Mapping[str, tuple[float, str, float]] = {
    "cold": (0.5, "booted", 1.0),
    "warm": (0.2, "was running; its services started", 0.3),
    "frozen": (0.05, "thawed", 0.1),
    "hot": (0.02, "was running", 0.1),
}


class JournalOnADisk(Journal):
    """The real one, on a disk that may be full."""

    def __init__(self, path: Path, full: Callable[[], bool]) -> None:
        self._full = full
        super().__init__(path)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        if self._full():
            raise self._unusable(sqlite3.OperationalError("database or disk is full"))
        with super().transaction() as db:
            yield db


@dataclass
class SimulatedWorld:
    """The outside of one service."""

    host: str = "hv1"
    site: str = "main"
    power: Power = Power.RUNNING
    reason: str = ""
    hypervisor_answers: bool = True
    #: The hypervisor takes connections, and libvirtd on it never answers.
    libvirtd_hangs: bool = False
    #: Nothing of the primary's side is reached from here, however well it is.
    network_cut: bool = False
    #: Per cent of the primary's CPUs, and since when.
    cpu: float = 5.0
    cpu_since: float = 0.0
    silent_since: float | None = None
    fence_command: bool = False
    fence_command_works: bool = True
    #: Seconds after which a fence that has failed acts all the same; None: it never does.
    fence_acts_late: float | None = None
    neighbours: tuple[str, ...] = ()
    primary_ports_open: bool = True
    #: Something at the primary's address answers, whoever it is.
    address_answers: bool = False
    standby_exists: bool = True
    standby_running: bool = False
    standby_ports_open_after: float = 1.0
    #: Seconds for which the ports then open and close again.
    standby_flaps_for: float = 0.0
    mode: str = "cold"
    container_epoch: int = 0
    lxd_answers: bool = True
    #: ns1, which takes the updates.
    dns_answers: bool = True
    #: What is wrong with ns2; None where there is none.
    ns2: str | None = None
    virtual_ip: str | None = None
    virtual_ip_is_here: bool = False
    virtual_ip_elsewhere: bool = False
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
    disk_full: bool = False
    steps: list[str] = field(default_factory=list)

    @property
    def libvirt_answers(self) -> bool:
        return self.hypervisor_answers and not self.libvirtd_hangs and not self.network_cut

    @property
    def reading(self) -> tuple[Power, str]:
        return (self.power, self.reason) if self.libvirt_answers else (Power.UNREACHABLE, "")

    @property
    def open_ports(self) -> list[str]:
        """As seen from here."""
        serves = (self.power is Power.RUNNING and self.primary_ports_open) or self.address_answers
        return ["primary:80"] if serves and not self.network_cut else []

    @property
    def may_start(self) -> bool:
        return self.power in OFF or self.operators_word


class SimulatedActuator:
    """Acts on a SimulatedWorld; each act takes a little time."""

    def __init__(
        self,
        world: SimulatedWorld,
        clock: VirtualClock,
        boundary: Callable[[str], None],
        policy: Policy,
        name: str = "web",
        fleet: Fleet | None = None,
    ) -> None:
        self.name = name
        self.fleet = fleet
        self.tell: Callable[[str], None] = lambda _text: None
        self.policy = policy
        self.world = world
        self.clock = clock
        self.boundary = boundary

    def epoch_elsewhere(self) -> int:
        world = self.world
        return max(world.dns_epoch if world.dns_answers else 0, world.container_epoch if world.lxd_answers else 0)

    def carry_out(self, step: Step, episode: Episode) -> Mapping[str, Any]:
        self.boundary(f"before {step}")
        evidence: Mapping[str, Any] = getattr(self, f"_{step}")(episode)
        self.world.steps.append(step.value)
        self.boundary(f"after {step}")
        return evidence

    def _confirm(self, episode: Episode) -> Mapping[str, Any]:
        self._ask_libvirt(0.2)
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
            "detail": self._silence() if power is Power.UNREACHABLE else "",
            "open_ports": open_ports,
            "freshness": ages.files,
            "freshness_detail": ages.detail,
            "heard": ages.heard,
            "cpu": self.world.cpu if doubtful and power is Power.RUNNING else None,
            "fence_command": self.world.fence_command,
            "neighbours": self._neighbours() if power is Power.UNREACHABLE else [],
            "restore_asked": episode.request.restore_point,
            "restore_problem": self.restore_problem(episode),
            "summary": f"{power}{f' ({reason})' if reason else ''}, ports {'open' if open_ports else 'closed'}",
        }

    def _ask_libvirt(self, seconds: float) -> None:
        self.clock.sleep(seconds)
        if self.world.libvirtd_hangs:
            self.clock.wait_for(lambda: not self.world.libvirtd_hangs, 5.0)

    def _on_the_same_host(self) -> dict[str, SimulatedWorld]:
        others = {} if self.fleet is None else {name: sim.world for name, sim in self.fleet.sims.items()}
        return {name: world for name, world in others.items() if name != self.name and world.host == self.world.host}

    def _neighbours(self) -> list[str]:
        return [*self.world.neighbours, *(name for name, other in self._on_the_same_host().items() if other.open_ports)]

    def _silence(self) -> str:
        return f"hypervisor {self.world.host} does not answer" + (" within 5 s" if self.world.libvirtd_hangs else "")

    def _fence(self, episode: Episode) -> Mapping[str, Any]:
        if episode.request.primary_is_down:
            self.clock.sleep(0.1)
            self.world.operators_word = True
            return {"summary": "on the operator's word"}
        self._ask_libvirt(0.1)
        confirm, power = episode.done(Step.CONFIRM), self.world.reading[0]
        was_away = confirm is not None and confirm.evidence["power"] == Power.UNREACHABLE
        if was_away and power is Power.RUNNING and not episode.request.force:
            raise OutsideError(f"hypervisor {self.world.host} answers again, and says that the primary is running")
        if not self.world.libvirt_answers and self.world.fence_command and self._may_power_off(episode):
            return self._power_off(episode)
        if not self.world.libvirt_answers:
            self._acts_late("destroyed", [self.world])
            raise OutsideError(self._silence())
        if self.world.power not in OFF:
            self.world.power, self.world.reason = Power.SHUTOFF, "destroyed"
        return {"summary": f"{self.world.power}"}

    def _may_power_off(self, episode: Episode) -> bool:
        confirm = episode.first_confirmed
        if confirm is not None and confirm.evidence["power"] == Power.UNREACHABLE:
            return True
        first = min((r.begun_at for r in episode.steps if r.step is Step.FENCE), default=self.clock.now())
        return self.clock.now() - first >= self.policy.host_silent_for and not self._neighbours()

    def _acts_late(self, reason: str, worlds: Sequence[SimulatedWorld]) -> None:
        """What was asked of libvirtd, or of a BMC, is done later, although nobody heard that it would be."""
        after = self.world.fence_acts_late
        if after is None:
            return

        def act() -> None:
            for world in worlds:
                if world.power not in OFF:
                    world.power, world.reason = Power.SHUTOFF, reason
                    self.tell(f"world: the fence acts late: shutoff ({reason})")

        self.clock.changes.append((self.clock.time + after, act))

    def _power_off(self, episode: Episode) -> Mapping[str, Any]:
        """Once for all services of the hypervisor, as `recover.host_fence` does."""
        host, fencing = self.world.host, set() if self.fleet is None else self.fleet.fencing
        known = {} if self.fleet is None else self.fleet.fenced
        waits_since = self.clock.now()
        if host in fencing:
            self.clock.wait_for(lambda: host not in fencing, 60.0)
        at, ok = known.get(host, (0.0, False))
        if ok and at >= episode.opened_at and 0 <= self.clock.now() - at < PROVEN_FOR:
            return {"summary": f"{host} is off: Chassis Power is off (for all its services)"}
        failed = f"hypervisor {host} was not fenced: power-off failed with status 1: no route to the BMC"
        if not ok and host in known and at >= waits_since:
            raise OutsideError(failed)
        fencing.add(host)
        try:
            self.clock.sleep(2.0)
        finally:
            fencing.discard(host)
        known[host] = (self.clock.now(), self.world.fence_command_works)
        worlds = (self.world, *self._on_the_same_host().values())
        if not self.world.fence_command_works:
            self._acts_late("crashed", worlds)
            raise OutsideError(failed)
        for world in worlds:
            if world.power not in OFF:
                world.power, world.reason = Power.SHUTOFF, "crashed"
        return {"summary": f"{host} is off: Chassis Power is off"}

    def _wanted(self, episode: Episode) -> RestorePoint:
        points = [RestorePoint(float(number), name) for number, name in enumerate(self.world.restore_points)]
        return find(points, self.name, episode.request.restore_point or "")

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
        assert self.world.may_start, "a standby is restored while its primary may live"
        if self.world.standby_running:
            raise OutsideError(f"container {self.name} is running: a restore would throw away what it has written")
        # One that only waited is stopped for that, and boots.
        self.world.mode = "cold"
        self.world.tree = "half"
        self.clock.sleep(1.0)
        self.boundary("in the middle of restore")
        self.world.tree = point.name
        self.world.restores += 1
        return {"summary": f"to {point.name}", "asked": episode.request.restore_point, "restore_point": point.name}

    def _start(self, episode: Episode) -> Mapping[str, Any]:
        takes, how, _ = MODES[self.world.mode]
        self.clock.sleep(takes)
        assert self.world.tree != "half", "a standby starts from half a restore point"
        if episode.request.restore_point is not None:
            assert self.world.tree == self._wanted(episode).name, "a standby starts from what was not asked for"
        if not self.world.lxd_answers:
            raise OutsideError("LXD on secondary sec1 does not answer")
        if not self.world.standby_exists:
            raise OutsideError(f"secondary sec1 has no container {self.name}")
        if self.world.container_epoch > episode.epoch:
            raise RefusedError(
                f"container {self.name} belongs to epoch {self.world.container_epoch}; "
                f"this controller is at {episode.epoch}"
            )
        assert self.world.may_start, "a standby starts while its primary may live"
        self.world.container_epoch = episode.epoch
        self._run_standby()
        return {"summary": f"container {self.name} on sec1: {how}"}

    def _run_standby(self) -> None:
        if self.world.standby_running:
            return
        self.world.standby_running = True
        self.world.started_at = self.clock.time
        self.world.starts += 1

    def _probe(self, episode: Episode) -> Mapping[str, Any]:
        world, left = self.world, MODES[self.world.mode][2]
        if not world.standby_running:
            if not world.lxd_answers:
                raise OutsideError("LXD on secondary sec1 does not answer")
            assert world.may_start, "a standby is started beside its primary"
            left = 1.0
            self._run_standby()
        opens_at = world.started_at + world.standby_ports_open_after * left
        good_at = opens_at + world.standby_flaps_for
        if good_at > self.clock.time + 60:
            self.clock.sleep(60)
            flaps = opens_at < self.clock.time and world.standby_flaps_for > 0
            said = "; it answered and ceased to again and again" if flaps else ""
            raise OutsideError(f"the standby of {self.name} does not answer on port 80{said}")
        self.clock.sleep(max(0.0, good_at - self.clock.time))
        world.probed_epoch = episode.epoch
        return {"summary": "port 80"}

    def _switch(self, episode: Episode) -> Mapping[str, Any]:
        self.clock.sleep(0.01)
        world = self.world
        assert world.probed_epoch == episode.epoch, "DNS moves to ports that were not seen open at this epoch"
        try:
            self._switch_names(episode)
        except OutsideError:
            self._take_address()
            raise
        self._take_address()
        moved = "" if world.virtual_ip is None else f"; {world.virtual_ip} -> standby"
        return {"summary": f"{self._www} -> standby{moved}"}

    @property
    def _www(self) -> str:
        return "www" if self.name == "web" else f"www.{self.name}"

    def _switch_names(self, episode: Episode) -> None:
        world = self.world
        if not world.dns_answers:
            raise OutsideError("DNS server ns1 does not answer")
        if not world.dns_key_good:
            raise OutsideError("DNS server ns1 rejects TSIG key vcr")
        if world.dns_epoch > episode.epoch:
            raise RefusedError(
                f"{self._www} belongs to epoch {world.dns_epoch} by now; this controller is at {episode.epoch}"
            )
        if (world.dns_address, world.dns_epoch) != ("standby", episode.epoch):
            world.dns_address, world.dns_epoch = "standby", episode.epoch
            world.switches += 1

    def _take_address(self) -> None:
        world = self.world
        if world.virtual_ip is None or world.virtual_ip_is_here:
            return
        if world.virtual_ip_elsewhere:
            raise OutsideError(f"52:54:00:00:00:01 still has {world.virtual_ip}")
        world.virtual_ip_is_here = True
        self.tell(f"world: this machine has {world.virtual_ip}")

    def _verify(self, _episode: Episode) -> Mapping[str, Any]:
        self.clock.sleep(0.01)
        self._take_address()
        world = self.world
        if not world.dns_answers:
            raise OutsideError("DNS server ns1 does not answer")
        if world.ns2:
            self.clock.wait_for(lambda: not world.ns2, 10.0)
        if world.ns2:
            raise OutsideError(f"DNS server ns2 {world.ns2}: it may lack {self._www} (ns1 has it)")
        return {"summary": "on ns1" if world.ns2 is None else "on ns1, ns2"}


class Simulation:
    """One service, its world, and controllers that come and go."""

    def __init__(
        self, folder: Path, policy: Policy | None = None, name: str = "web", fleet: Fleet | None = None
    ) -> None:
        self.path = folder / "journal.db"
        self.name = name
        self.fleet = fleet
        self.clock = fleet.clock if fleet is not None else VirtualClock()
        self.world = SimulatedWorld()
        self.policy = policy or Policy(max_staleness=60.0)
        self.log: list[str] = fleet.log if fleet is not None else []
        self.kill_at: int | str | None = None
        self.boundaries = 0
        #: Whether an old primary that comes back is held paused.
        self.hold_returning = False
        self._said = ""
        self._given_up: str | None = None
        self._not_before = 0.0
        #: After so many failed tries in a row, whoever watches the watcher ends it.
        self.patience: int | None = None
        self._at_work = False
        self.journal: Journal = fleet.journal if fleet is not None else self._open()

    def _open(self) -> Journal:
        return JournalOnADisk(self.path, lambda: self.world.disk_full)

    def say(self, text: str) -> None:
        # The file is called as on a real controller, in every log.
        text = text.replace(str(self.path), "/var/lib/vcrecovery/journal.db")
        self.log.append(f"{self.clock.now():7.2f}  {text}")

    def _watch_says(self, text: str) -> None:
        self.say(f"watch: {text}" if text.startswith(f"{self.name}: ") else f"watch: {self.name}: {text}")

    # -- the controller's life ---------------------------------------------------------------------------------

    def boundary(self, name: str) -> None:
        """A place between two acts, where a controller may be killed."""
        self.boundaries += 1
        if self.kill_at in (self.boundaries, name):
            self.kill_at = None
            self.clock.kill()
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
        self.journal = self._open()
        self.forget()

    def forget(self) -> None:
        """What a controller has in memory only."""
        self._said, self._given_up, self._not_before = "", None, 0.0

    def _killed(self, where: KilledError) -> None:
        if where.args:  # else it is one of the threads that end with it
            self.say(f"the controller is killed: {where}" + ("" if self.fleet is None else f" of {self.name}"))
        if self.fleet is None:
            self.restart()

    def _fail_over(
        self, cause: str, request: Request, detected_at: float | None = None, gate: Several | None = None
    ) -> Episode:
        if self._at_work:
            raise BusyError(f"another controller is already at work on {self.name}")
        self._at_work = True
        try:
            return self._with_the_lock(cause, request, detected_at, gate)
        finally:
            self._at_work = False

    def _with_the_lock(
        self, cause: str, request: Request, detected_at: float | None, gate: Several | None = None
    ) -> Episode:
        state = self.journal.state(self.name)
        if state.side is Side.STANDBY and state.open_episode is None:
            # Between two tries an operator may have taken over.
            return self.journal.history(self.name, 1)[0]
        actuator = SimulatedActuator(self.world, self.clock, self.boundary, self.policy, self.name, self.fleet)
        actuator.tell = self.say
        return fail_over(
            self.name,
            cause,
            request,
            policy=self.policy,
            actuator=actuator,
            journal=self.journal,
            clock=self.clock,
            teller=self,
            detected_at=detected_at,
            gate=gate if gate is not None else ALONE,
        )

    def serves_from_standby(self) -> bool:
        state = self.journal.state(self.name)
        return state.side is Side.STANDBY and state.open_episode is None

    def failover(self, **request: Any) -> None:
        """What `vcrecovery failover web` does. `primary_is_down`: what was typed, or True for the right name."""
        if self.serves_from_standby():
            self.say(f"operator: nothing to do: the standby of {self.name} serves")
            return
        if request.get("primary_is_down") is True:
            request["primary_is_down"] = self.name
        self.say(f"operator: failover {self.name}{_typed(request)}")
        try:
            request["primary_is_down"] = operators_word("service", self.name, request.get("primary_is_down"))
            episode = self._fail_over("asked for by operator", Request(**request))
            self.say(f"operator: {episode.outcome}: {episode.reason}")
        except VCRecoveryError as error:
            self.say(f"operator: {type(error).__name__}: {error}")
        except KilledError as where:
            self._killed(where)

    def watch(self, by: str = "watch") -> None:
        """One look of `vcrecovery watch`, and all that follows from it."""
        try:
            found = self.failure()
        except OutsideError as error:  # the journal
            self.say_once(str(error))
            return
        if found is not None:
            self.work(*found, by=by)

    def say_once(self, sentence: str) -> None:
        if self._said != sentence:
            self._said = sentence
            self._watch_says(sentence)

    def failure(self) -> tuple[str, Verdict] | None:
        """Why it must be failed over now, if it must."""
        if self.hold_returning:
            self.hold()
        now = self.clock.now()
        state = self.journal.state(self.name)
        power, reason = self.world.reading
        if power is Power.RUNNING and state.seen_running_at is None:
            self.journal.saw_running(self.name, now)
            state = replace(state, seen_running_at=now)
        suspicion = self._suspicion(power, self.clock.time)
        verdict = judge(state, power, reason, now, suspicion=suspicion, cool_down=self.policy.cool_down)
        cause = cause_of(state, verdict)
        if cause is None:
            self._given_up = None
            self.say_once(verdict.sentence)
            return None
        if cause == self._given_up or self.clock.time < self._not_before:
            return None
        self._said = ""
        self._watch_says(cause)
        return cause, verdict

    def work(self, cause: str, verdict: Verdict, by: str = "watch", gate: Several | None = None) -> None:
        """What `recover.unattended` does."""
        now = self.clock.now()

        def attempt() -> Episode:
            if gate is not None:
                gate.try_again(self.name)
            return self._fail_over(cause, Request(automatic=True, by=by, doubt=verdict.doubt), now, gate)

        failures = 0

        def on_failure(error: OutsideError, delay: float) -> None:
            nonlocal failures
            failures += 1
            if gate is not None:
                gate.failed(self.name, error.message)
            self._watch_says(f"{error}; again in {delay:.0f} s")
            if self.patience is not None and failures > self.patience:
                raise KilledError("its patience is over")

        trouble = ""
        if gate is not None:
            gate.begin([self.name])
        try:
            episode = automatic(until_it_ends(self.journal, self.name, attempt), self.clock, on_failure)
            self.say(f"watch: {episode.outcome}: {episode.reason}")
            if episode.outcome is Outcome.FALSE_ALARM:
                self._not_before = self.clock.time + FALSE_ALARM_DELAY
        except RefusedError as error:
            self._given_up, trouble = cause, error.message
            self._watch_says(f"no failover: {error}")
        except BusyError as error:
            self._watch_says(str(error))
        except KilledError as where:
            self._killed(where)
            if self.fleet is not None:
                raise
        finally:
            if gate is not None:
                gate.end(self.name, trouble)

    def hold(self) -> None:
        """What `detect.host_hold` does."""
        book, power = HoldBook(self.journal), self.world.reading[0]
        held, state = book.open(self.name), self.journal.state(self.name)
        act = hold.decide(state, power, held, self.clock.now())
        if act is hold.Act.PAUSE:
            # It is paused also when that cannot be written down.
            self.world.power = Power.PAUSED
            with suppress(OutsideError):
                book.held(book.begin(self.name, state.epoch, "its uuid", self.clock.now()), self.clock.now())
            self._watch_says("the old primary came back after its failover: its VM is held paused on hv1")
        elif act is hold.Act.FORGET and held is not None:
            # Where that cannot be written down, it is tried again at the next look.
            with suppress(OutsideError):
                book.release(held.id, self.clock.now(), hold.why_forgotten(power))
                self._watch_says(f"its old primary is not held any more: {hold.why_forgotten(power)}")

    def zabbix_event(self) -> None:
        """What `vcrecovery event` leads to: Zabbix has seen it running, and a new event is looked at anew."""
        state = self.journal.state(self.name)
        if state.seen_running_at is None and state.side is Side.PRIMARY:
            try:
                self.journal.saw_running(self.name, self.clock.now())
            except OutsideError as error:
                self.say_once(str(error))
                return
        self._given_up, self._not_before = None, 0.0
        self.watch(by="Zabbix")

    def _suspicion(self, power: Power, now: float) -> Suspicion | None:
        world, answering = self.world, tuple(self.world.open_ports)
        worlds = [world] if self.fleet is None else [sim.world for sim in self.fleet.sims.values()]
        for each in worlds:
            if each.libvirt_answers:
                each.silent_since = None
            elif each.silent_since is None:
                each.silent_since = now
        silent = {each.host: each.silent_since for each in worlds if each.silent_since is not None}
        sites = {each.host: each.site for each in worlds}
        if sentence := failed_hosts(silent, sites, self.policy.host_silent_for, now).get(world.host):
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
        self.world.virtual_ip_is_here = False
        book = HoldBook(self.journal)
        if (held := book.open(self.name)) is not None:
            book.release(held.id, self.clock.now(), "the primary serves again")
        self.journal.serve_from_primary(self.name, self.clock.now())

    def acknowledge(self) -> None:
        self.journal.acknowledge(self.name, self.clock.now())

    def pause(self, seconds: float | None) -> None:
        now = self.clock.now()
        self.journal.pause(self.name, Pause(now, None if seconds is None else now + seconds, "work"))

    def resume(self) -> None:
        self.journal.pause(self.name, None)


def _typed(request: Mapping[str, Any]) -> str:
    return "".join(
        f" --{key.replace('_', '-')}" + ("" if value is True else f" {value}") for key, value in request.items()
    )


class InVirtualTime(Several):
    """The real gate; it waits by the virtual clock."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet, lambda: fleet.clock.time)
        self._clock = fleet.clock

    def wait(self, service: str) -> None:
        self._clock.wait_for(self._bells[service].is_set, LOOK_EVERY)


class Fleet:
    """Several services with one journal and one watcher, each failover in a thread of its own."""

    def __init__(
        self,
        folder: Path,
        needs: Mapping[str, Sequence[str]],
        policy: Policy | None = None,
        starts_at_once: int = 32,
        kind: type[Simulation] = Simulation,
    ) -> None:
        self.path = folder / "journal.db"
        self.clock = VirtualClock()
        self.log: list[str] = []
        self.needs_of = dict(needs)
        self.starts_at_once = starts_at_once
        #: The hypervisors whose fence command runs.
        self.fencing: set[str] = set()
        #: When the fence command of each has ended, and whether it has proved it off.
        self.fenced: dict[str, tuple[float, bool]] = {}
        self.journal = self._open()
        self.sims = {name: kind(folder, policy, name, self) for name in needs}
        self._controllers = 0
        self._new_watcher()

    def _open(self) -> Journal:
        return JournalOnADisk(self.path, lambda: any(sim.world.disk_full for sim in self.sims.values()))

    # -- what the gate asks ------------------------------------------------------------------------------------

    def needs(self, service: str) -> Sequence[str]:
        return self.needs_of[service]

    def secondary(self, _service: str) -> str:
        return "sec1"

    def most(self, _secondary: str) -> int:
        return self.starts_at_once

    def boots(self, service: str) -> bool:
        return self.sims[service].world.mode in ("cold", "warm")

    def state(self, service: str) -> ServiceState:
        return self.journal.state(service)

    def primary_answers(self, service: str) -> bool:
        return bool(self.sims[service].world.open_ports)

    # -- controllers -------------------------------------------------------------------------------------------

    def _process(self) -> str:
        self._controllers += 1
        return f"process {self._controllers}"

    def _new_watcher(self) -> None:
        self._watcher, self._gate = self._process(), InVirtualTime(self)
        for sim in self.sims.values():
            sim.forget()

    def watch(self) -> None:
        """One look at each service; those that must be failed over are, while others go on."""
        for name, sim in self.sims.items():
            if self.clock.is_at_work(f"{self._watcher} {name}"):
                continue
            try:
                found = sim.failure()
            except OutsideError as error:  # the journal
                sim.say_once(str(error))
                continue
            if found is not None:
                self.clock.spawn(f"{self._watcher} {name}", self._work(sim, *found), self._watcher)

    def _work(self, sim: Simulation, cause: str, verdict: Verdict) -> Callable[[], None]:
        gate, watcher = self._gate, self._watcher

        def work() -> None:
            try:
                sim.work(cause, verdict, gate=gate)
            except KilledError:
                if watcher == self._watcher:
                    self._new_watcher()
                raise

        return work

    @property
    def is_at_work(self) -> bool:
        return self.clock.threads > 0

    def failover(self, what: str, name: str, services: Sequence[str], **request: Any) -> None:
        """What `vcrecovery failover --host`, `--site` or `--group` does; `what` is `service` for one alone."""
        if what == "service":
            self.sims[name].failover(**request)
            return
        said = next(iter(self.sims.values())).say
        said(f"operator: failover --{what} {name}{_typed(request)}")
        try:
            word = operators_word(what, name, request.pop("primary_is_down", None))
        except VCRecoveryError as error:
            said(f"operator: {type(error).__name__}: {error}")
            return
        process, gate = self._process(), InVirtualTime(self)
        turns = {service: ExitStack() for service in services}
        dead: list[str] = []

        def attempt(service: str) -> Episode | None:
            turns[service].enter_context(self.clock.turn_of(f"{process} {service}"))
            sim = self.sims[service]
            try:
                if sim.serves_from_standby():
                    return None
                wanted = Request(primary_is_down=word, **request)
                return sim._fail_over(f"asked for by operator, with {what} {name}", wanted, gate=gate)
            except KilledError as where:
                dead.append(service)
                if len(dead) == 1:
                    sim._killed(where)
                return None
            except AssertionError as error:
                self.clock.broken = error
                raise

        def tell(result: Result) -> None:
            if not dead:
                way_out = f"; {result.way_out}" if result.way_out else ""
                told = f"{result.service}: {result.result}: {result.reason}{way_out}"
                said(f"operator: {told}")
            turns[result.service].close()

        with self.clock.standing_aside([f"{process} {service}" for service in services], process):
            results = fail_over_all(services, attempt, gate, tell)
        if self.clock.broken is not None:
            raise self.clock.broken
        missing = [result.service for result in results if result.exit_code is not ExitCode.DONE]
        if not dead:
            said(
                f"operator: {what} {name}: " + (f"not served by standbys: {', '.join(missing)}" if missing else "done")
            )
