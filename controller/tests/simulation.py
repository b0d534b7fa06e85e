"""One service in a simulated world: the real core, journal and executor, the controllers that come and go, and what an
operator types.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulated_world import SimulatedActuator, SimulatedWorld
from vcrecovery.cli.recovery import operators_word
from vcrecovery.core import returning as hold
from vcrecovery.core.cpu import SeenSymptom
from vcrecovery.core.meaning import Meaning, meaning_of
from vcrecovery.core.power import Power
from vcrecovery.core.sighting import OffTime, Sighting, sighted, still_off, worth_writing
from vcrecovery.core.states import Episode, Outcome, Pause, Policy, Request, Side, Step, Symptom
from vcrecovery.core.verdict import Circumstances, Verdict, failed_hosts, judge
from vcrecovery.detect.watch import FALSE_ALARM_DELAY, cause_of
from vcrecovery.errors import BusyError, ExternalError, NotNowError, RefusedError, VCRecoveryError
from vcrecovery.operations.failover import ALONE, automatic, fail_over
from vcrecovery.operations.start_gate import StartGate
from vcrecovery.operations.unattended import until_it_ends
from vcrecovery.store.journal import Journal
from vcrecovery.store.quarantines import QuarantineBook
from virtual_time import KilledError, VirtualClock

if TYPE_CHECKING:
    from simulated_fleet import Fleet

#: `detection.autostart_within`.
AUTOSTART_WITHIN = 60.0

__all__ = ["KilledError", "Simulation", "VirtualClock"]


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


class Simulation:
    """One service, its world, and controllers that come and go."""

    def __init__(
        self, folder: Path, policy: Policy | None = None, name: str = "web", fleet: Fleet | None = None
    ) -> None:
        self.path = folder / "journal.db"
        self.name = name
        self.fleet = fleet
        self.clock = fleet.clock if fleet is not None else VirtualClock()
        self.env = SimulatedWorld()
        self.policy = policy or Policy(max_staleness=60.0)
        self.log: list[str] = fleet.log if fleet is not None else []
        self.kill_at: int | str | None = None
        self.boundaries = 0
        #: Whether an old primary that comes back is held paused.
        self.hold_returning = False
        self.forget()
        #: After so many failed tries in a row, whoever watches the watcher ends it.
        self.patience: int | None = None
        self._at_work = False
        self.journal: Journal = fleet.journal if fleet is not None else self._open()

    def _open(self) -> Journal:
        return JournalOnADisk(self.path, lambda: self.env.disk_full)

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

    def waiting(self, episode: Episode, at: float, sentence: str) -> None:
        self.say(f"{episode.service}: epoch {episode.epoch}: {sentence}")

    def restart(self) -> None:
        self.journal = self._open()
        self.forget()

    def forget(self) -> None:
        """What a controller has in memory only."""
        self._said = ""
        self._given_up: str | None = None
        self._not_before = 0.0
        self._seen: Sighting | None = None
        self._written: Sighting | None = None
        self._off: OffTime | None = None
        self._stalled_since: float | None = None
        self._back_at: float | None = None

    def _killed(self, where: KilledError) -> None:
        if where.args:  # else it is one of the threads that end with it
            self.say(f"the controller is killed: {where}" + ("" if self.fleet is None else f" of {self.name}"))
        if self.fleet is None:
            self.restart()

    def _fail_over(
        self, cause: str, request: Request, detected_at: float | None = None, gate: StartGate | None = None
    ) -> Episode:
        if self._at_work:
            raise BusyError(f"another controller is already at work on {self.name}")
        self._at_work = True
        try:
            return self._with_the_lock(cause, request, detected_at, gate)
        finally:
            self._at_work = False

    def _with_the_lock(
        self, cause: str, request: Request, detected_at: float | None, gate: StartGate | None = None
    ) -> Episode:
        state = self.journal.state(self.name)
        if state.side is Side.STANDBY and state.open_episode is None:
            # Between two tries an operator may have taken over.
            return self.journal.history(self.name, 1)[0]
        actuator = SimulatedActuator(self.env, self.clock, self.boundary, self.policy, self.name, self.fleet)
        actuator.tell = self.say
        actuator.off_times = lambda: self.journal.off_times(self.name)
        return fail_over(
            self.name,
            cause,
            request,
            policy=self.policy,
            actuator=actuator,
            journal=self.journal,
            clock=self.clock,
            reporter=self,
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
        self.say(f"operator: failover {self.name}{typed(request)}")
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
        except ExternalError as error:  # the journal
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
        power, reason = self.env.reading
        if power is Power.RUNNING and state.seen_running_at is None:
            self.journal.saw_running(self.name, now)
            state = replace(state, seen_running_at=now)
        state = replace(state, seen=self._remember(power, reason, now) or state.seen)
        also = Circumstances(
            self._seen_symptom(power, self.clock.time),
            self._stalled(power, reason),
            self.policy.stalled_for,
            self._starting(power, reason),
            began_at=None if self._seen is None else self._seen.at,
        )
        verdict = judge(state, power, reason, now, cool_down=self.policy.cool_down, also=also)
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

    def work(self, cause: str, verdict: Verdict, by: str = "watch", gate: StartGate | None = None) -> None:
        """What `operations.unattended` does."""
        now = self.clock.now()

        def attempt() -> Episode:
            if gate is not None:
                gate.try_again(self.name)
            request = Request(automatic=True, by=by, symptom=verdict.symptom, began_at=verdict.began_at)
            return self._fail_over(cause, request, now, gate)

        failures = 0

        def on_failure(error: ExternalError, delay: float) -> None:
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
            if not isinstance(error, NotNowError):
                self._given_up = cause
            trouble = error.message
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
        """What `detect.quarantine_keeper` does."""
        book, power = QuarantineBook(self.journal), self.env.reading[0]
        held, state = book.open(self.name), self.journal.state(self.name)
        act = hold.decide(state, power, held, self.clock.now())
        if act is hold.Act.PAUSE:
            # It is paused also when that cannot be written down.
            self.env.power = Power.PAUSED
            with suppress(ExternalError):
                book.held(book.begin(self.name, state.epoch, "its uuid", self.clock.now()), self.clock.now())
            self._watch_says("the old primary came back after its failover: its VM is held paused on hv1")
        elif act is hold.Act.FORGET and held is not None:
            # Where that cannot be written down, it is tried again at the next look.
            with suppress(ExternalError):
                book.release(held.id, self.clock.now(), hold.why_forgotten(power))
                self._watch_says(f"its old primary is not held any more: {hold.why_forgotten(power)}")

    def zabbix_event(self) -> None:
        """What `vcrecovery event` leads to: Zabbix has seen it running, and a new event is looked at anew."""
        state = self.journal.state(self.name)
        if state.seen_running_at is None and state.side is Side.PRIMARY:
            try:
                self.journal.saw_running(self.name, self.clock.now())
            except ExternalError as error:
                self.say_once(str(error))
                return
        self._given_up, self._not_before = None, 0.0
        self.watch(by="Zabbix")

    def _remember(self, power: Power, reason: str, now: float) -> Sighting | None:
        """What `detect.primaries` does, and the watcher with it."""
        before, self._off = self._off, still_off(self._off, meaning_of(power, reason), now)
        ended = before if self._off is None else None
        self._seen = sighted(self._seen, power, reason, self.env.host, now)
        if self._seen is not None and (ended or worth_writing(self._written, self._seen)):
            with suppress(ExternalError):
                self.journal.saw({self.name: (self._seen, ended or self._off)})
                self._written = self._seen
        return self._seen

    def _stalled(self, power: Power, reason: str) -> float:
        if meaning_of(power, reason) is not Meaning.STALLED:
            self._stalled_since = None
            return 0.0
        self._stalled_since = self.clock.time if self._stalled_since is None else self._stalled_since
        return self.clock.time - self._stalled_since

    def _starting(self, power: Power, reason: str) -> str:
        """Autostart, while the hypervisor has time for it."""
        if not self.env.libvirt_answers:
            self._back_at = None
        elif self._back_at is None:
            self._back_at = self.clock.time
        lost = self.env.autostart and meaning_of(power, reason) is Meaning.LOST
        return "autostart" if lost and self.clock.time - (self._back_at or 0.0) < AUTOSTART_WITHIN else ""

    def _seen_symptom(self, power: Power, now: float) -> SeenSymptom | None:
        env, answering = self.env, tuple(self.env.open_ports)
        worlds = [env] if self.fleet is None else [sim.env for sim in self.fleet.sims.values()]
        for each in worlds:
            if each.libvirt_answers:
                each.silent_since = None
            elif each.silent_since is None:
                each.silent_since = now
        silent = {each.host: each.silent_since for each in worlds if each.silent_since is not None}
        sites = {each.host: each.site for each in worlds}
        if sentence := failed_hosts(silent, sites, self.policy.host_silent_for, now).get(env.host):
            return SeenSymptom(Symptom.HOST, sentence, answering)
        lasted = now - env.cpu_since
        if power is Power.RUNNING and env.cpu == 0 and lasted >= self.policy.cpu_zero_for:
            return SeenSymptom(Symptom.CPU_ZERO, "has used no CPU for 60 s", answering)
        if power is Power.RUNNING and env.cpu >= self.policy.cpu_high and lasted >= self.policy.cpu_high_for:
            return SeenSymptom(Symptom.CPU_HIGH, "has used 95 % or more of its CPUs for 60 s", answering)
        return None

    # -- what a scenario says ----------------------------------------------------------------------------------

    def crash(self) -> None:
        self.env.power, self.env.reason = Power.SHUTOFF, "crashed"

    def stop_primary(self, reason: str) -> None:
        self.env.power, self.env.reason = Power.SHUTOFF, reason

    def start_primary(self) -> None:
        self.env.power, self.env.reason = Power.RUNNING, ""

    def serve_from_primary(self) -> None:
        """What `vcrecovery standby reset` does, once the operator has brought everything back."""
        self.start_primary()
        self.env.standby_running, self.env.dns_address = False, "primary"
        self.env.virtual_ip_is_here = False
        book = QuarantineBook(self.journal)
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


def typed(request: Mapping[str, Any]) -> str:
    """The words of a request, as an operator types them."""
    return "".join(
        f" --{key.replace('_', '-')}" + ("" if value is True else f" {value}") for key, value in request.items()
    )
