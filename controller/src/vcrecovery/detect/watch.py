"""The embedded detector: libvirt's events, CPU time and silence, without Zabbix.

An event makes us read the VM's state; the state is judged. States are also read after every (re)connection and every
few seconds, so a lost event is no lost failure. A symptom (no CPU used, all of it used, a hypervisor that is silent)
makes us ask the ports; only both together are a failure.
"""

from __future__ import annotations

import contextlib
import logging
import queue
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Protocol

from vcrecovery.core.cpu import SeenSymptom, symptom_in
from vcrecovery.core.episode import Episode, Outcome, Symptom
from vcrecovery.core.meaning import Meaning
from vcrecovery.core.power import Power
from vcrecovery.core.service_state import ServiceState
from vcrecovery.core.verdict import FAILURES, Circumstances, Kind, Verdict, failed_hosts, judge
from vcrecovery.detect import host_watch, rounds
from vcrecovery.detect.attempts import Attempts
from vcrecovery.detect.host_watch import Began, Connected, Happened, Heard, HostWatch, Lost, Message, NotHeard
from vcrecovery.detect.port_questions import PortQuestions
from vcrecovery.detect.primaries import Primaries
from vcrecovery.detect.rounds import Rounds
from vcrecovery.drivers.runtime import Event, Inbox
from vcrecovery.errors import ExternalError, VCRecoveryError
from vcrecovery.keeping import SayOnce
from vcrecovery.operations.environment import Environment
from vcrecovery.store.lock import is_at_work

log = logging.getLogger("vcrecovery.watch")

TICK = 1.0
#: Seconds after a start or a reboot in which a guest may use all its CPU with its ports closed.
BOOT_GRACE = 300.0

_LOUD = frozenset({Kind.STALE_PRIMARY, Kind.UNKNOWN, Kind.COOLING, Kind.OVERLOADED, Kind.STALLED})


class Recover(Protocol):
    """Fails services over; raises as `fail_over` does."""

    def __call__(
        self,
        service: str,
        cause: str,
        detected_at: float,
        symptom: Symptom = Symptom.NONE,
        *,
        began_at: float | None = None,
        to: str | None = None,
    ) -> Episode: ...

    def at_work(self, service: str) -> bool:
        """Whether this program is failing the service over."""


class _Watched:
    """One service, beside what hypervisors say of its primary."""

    def __init__(self, env: Environment, service: str, on_not_now: Callable[[str], None]) -> None:
        self.ports = PortQuestions(env, service)
        self.attempts = Attempts(service, env.runtime, env.clock.steady, self._ended, on_not_now)

    def _ended(self, outcome: Outcome | None) -> None:
        if outcome is Outcome.WITHDRAWN:
            # It serves: what its ports were before says nothing any more.
            self.ports.forget()


def cause_of(state: ServiceState, verdict: Verdict) -> str | None:
    """Why the service must be failed over now, or None.

    What has begun comes first: that an operator has forced it says nothing about what was refused for the same failure.
    """
    episode = state.open_episode
    # Also what is done to a standby that waits has another end than a failover: see `operations.spare_loop`.
    begun = episode is not None and episode.has_acted
    if not begun:
        if verdict.kind in FAILURES:
            return verdict.cause
        if verdict.kind is Kind.SUSPENDED:
            return None
    if episode is not None and (episode.request.automatic or begun):
        return f"going on with epoch {episode.epoch}, which an earlier controller left"
    return None


class Watch:
    """Watches every service of a plan until `stop` is set."""

    def __init__(self, env: Environment, recover: Recover, tasks: Rounds | None = None) -> None:
        self._env = env
        self._recover = recover
        #: Of all the tasks without which a failure goes unseen. While one of them hangs, there is no sign of life.
        self._tasks = tasks or Rounds()
        self._hung: list[str] = []
        self._next_beat = 0.0
        self._beat: Callable[[], None] = lambda: None
        self._monotonic = env.clock.steady
        self._detection = env.plan.detection
        self._inbox: Inbox[Message] = env.runtime.inbox()
        self._primaries = Primaries(env.plan, env.whereabouts.homes(), env.clock.now, self._monotonic)
        #: Services of which nothing that was heard counts any more, and why: what the failovers' threads have found.
        self._forgotten: Inbox[tuple[str, str]] = env.runtime.inbox()
        self._watched = {name: _Watched(env, name, partial(self._forget, name)) for name in env.plan.services}
        self._say = SayOnce(log)
        self._silent: dict[str, float] = {}
        self._heard_at: dict[str, float] = {}
        self._failed: dict[str, str] = {}

    def run(
        self, stop: Event, ready: Callable[[], None] = lambda: None, beat: Callable[[], None] = lambda: None
    ) -> None:
        """`beat` is called every BEAT_EVERY seconds while everything goes round."""
        self._beat = beat
        if self._detection.embedded:
            # A VM may be migrated to any of them.
            uuids = [str(service.primary.uuid) for service in self._env.plan.services.values()]
            for name, host in self._env.hosts.items():
                watch = HostWatch(name, host, uuids, self._inbox, self._env.clock, self._env.runtime, self._tasks)
                watch.start(stop)
        ready()
        next_round = self._monotonic()
        while not stop.is_set():
            self._give_sign_of_life()
            with contextlib.suppress(queue.Empty):
                self._consider_all(self._take(self._inbox.get(timeout=TICK)))
            if self._monotonic() >= next_round:
                next_round = self._monotonic() + TICK
                self._look_for_failed_hosts()
                self._consider_all(self._watched)

    def _give_sign_of_life(self) -> None:
        if (now := self._monotonic()) < self._next_beat:
            return
        self._next_beat = now + rounds.BEAT_EVERY
        hung = self._tasks.hung()
        for task in sorted(set(hung) - set(self._hung)):
            log.error("the watcher hangs: no progress for %g s in the %s", rounds.HUNG_AFTER, task)
        self._hung = hung
        if not hung:
            self._beat()

    # -- what comes in -----------------------------------------------------------------------------------------

    def _take(self, message: Message) -> Iterable[str]:
        """Remembers what a hypervisor has said; the services that it concerns."""
        match message:
            case Happened(host, event, reading, at):
                log.debug("%s: libvirt event: %s", self._primaries.service_of(event.uuid), event)
                service = self._primaries.happened(host, event, reading, at)
                return [] if service is None else [service]
            case Began(host, uuid):
                self._primaries.began(host, uuid)
                return []
            case Connected(host):
                log.info("hypervisor %s: connected, reading every VM's state", host)
                return []
            case Lost(host, detail):
                log.warning("hypervisor %s: %s", host, detail)
                return self._primaries.lost(host, detail)
            case NotHeard(host, since, detail):
                self._silent[host] = since
                return self._primaries.lost(host, detail)
            case Heard(host, asked_at, at, usage):
                self._silent.pop(host, None)
                self._heard_at[host] = at
                return self._primaries.heard(host, asked_at, at, usage)

    def _look_for_failed_hosts(self) -> None:
        sites = {name: entry.site for name, entry in self._env.plan.hypervisors.items()}
        now = self._monotonic()
        # One that owes an answer may be as silent as its neighbour; that is known once the question has failed.
        late = {host: now for host, at in self._heard_at.items() if now - at > 1.5 * host_watch.ASK_EVERY}
        failed = failed_hosts({**late, **self._silent}, sites, self._detection.host_silent_for, now)
        # What has failed stays so until it is heard.
        failed = {host: text for host, text in self._failed.items() if host in self._silent} | failed
        # A site is one sentence, however many hypervisors it has.
        for sentence in dict.fromkeys(failed.values()):
            if sentence not in self._failed.values():
                log.warning("%s", sentence)
        self._failed = failed

    # -- symptoms --------------------------------------------------------------------------------------------

    def _seen_symptom(self, service: str) -> SeenSymptom | None:
        """What makes a failure likely, with what the ports say of it once they were asked."""
        watched, primary = self._watched[service], self._primaries[service]
        found: SeenSymptom | None = None
        if sentence := self._failed.get(primary.place.host):
            found = SeenSymptom(Symptom.HOST, sentence)
        elif primary.meaning is Meaning.GONE:
            found = SeenSymptom(Symptom.LOST, "no hypervisor knows its VM")
        elif primary.reading.power is Power.RUNNING:
            found = symptom_in(primary.samples, self._detection)
            is_busy = found is not None and found.symptom is Symptom.CPU_HIGH
            if is_busy and self._primaries.may_boot(service, BOOT_GRACE):
                found = None
        if found is None:
            watched.ports.forget()
            return None
        return replace(found, answering=watched.ports.about(found.symptom))

    # -- what is done about it ---------------------------------------------------------------------------------

    def _consider_all(self, services: Iterable[str]) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._primaries.forget(*self._forgotten.get_nowait())
        found = list(services)
        self._env.whereabouts.silent = self._primaries.silent
        self._write_down(found)
        for service in found:
            # Many of them may each wait for a disk.
            self._give_sign_of_life()
            self._consider(service)

    def _forget(self, service: str, why: str) -> None:
        self._forgotten.put((service, why))

    def _write_down(self, services: Iterable[str]) -> None:
        """What the hypervisors have said since, all of it at once."""
        news = {service: found for service in services if (found := self._primaries.news(service)) is not None}
        if news:
            # On a full disk what is remembered here has to do.
            with contextlib.suppress(ExternalError):
                self._env.journal.saw(news)
                for service in news:
                    self._primaries.told(service)

    def _consider(self, service: str) -> None:
        attempts = self._watched[service].attempts
        if attempts.busy or self._recover.at_work(service):
            return
        now = self._env.clock.now()
        try:
            state = self._remembered(service, now)
            anothers = state.open_episode if state.open_episode is not None and self._is_anothers(service) else None
        except VCRecoveryError as error:
            self._say(service, str(error), logging.ERROR, service=service)
            return
        verdict = self._judge(service, state, now)
        if (cause := cause_of(state, verdict)) is None:
            attempts.no_cause(healthy=verdict.kind is Kind.HEALTHY)
            if verdict.sentence:
                level = logging.WARNING if verdict.kind in _LOUD else logging.INFO
                self._say(service, verdict.sentence, level, service=service)
        elif anothers is not None:
            what = f"another controller is at work on epoch {anothers.epoch}: left alone until it is done"
            self._say(service, f"{service}: {what}", logging.INFO, service=service)
        elif attempts.is_due(cause):
            self._say(service, f"{service}: {cause}", logging.WARNING, service=service)
            symptom, began_at = verdict.symptom, verdict.began_at
            attempts.begin(cause, lambda: self._recover(service, cause, now, symptom, began_at=began_at))

    def _is_anothers(self, service: str) -> bool:
        """Whether another controller is at work on the failover that was read as open, or has closed it since."""
        env = self._env
        return is_at_work(env.plan.state_dir, service) or env.journal.state(service).open_episode is None

    def _remembered(self, service: str, now: float) -> ServiceState:
        """The journal's state, with what the hypervisors have said since. Raises ExternalError."""
        journal, primary = self._env.journal, self._primaries[service]
        state = journal.state(service)
        if primary.reading.power is Power.RUNNING and state.seen_running_at is None:
            journal.saw_running(service, now)
        return state if primary.seen is None else replace(state, seen=primary.seen)

    def _judge(self, service: str, state: ServiceState, now: float) -> Verdict:
        if not self._detection.embedded:
            return Verdict(Kind.SUSPENDED if state.suspension_at(now) else Kind.UNKNOWN, "")
        primary = self._primaries[service]
        if not self._primaries.asked(service, state.seen):
            return Verdict(Kind.UNKNOWN, "")
        stalled = 0.0 if primary.stalled_since is None else self._monotonic() - primary.stalled_since
        also = Circumstances(
            self._seen_symptom(service),
            stalled,
            self._detection.stalled_for,
            self._primaries.starting(service),
            self._primaries.maybe_on(service, state.seen),
            self._primaries.runs_on(service),
            self._primaries.unwatched(service, state.seen),
            self._began_at(service),
        )
        reading = primary.reading
        return judge(state, reading.power, reading.reason, now, cool_down=self._detection.cool_down, also=also)

    def _began_at(self, service: str) -> float | None:
        """When it was last known to live. What nobody has watched may have lived up to now."""
        seen, answered_at = self._primaries[service].seen, self._watched[service].ports.answered_at
        return None if seen is None else max(seen.at, answered_at)
