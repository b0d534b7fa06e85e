"""The embedded detector: libvirt's lifecycle events, without Zabbix.

An event makes us read the VM's state; the state is judged. States are also read after every (re)connection and every
few seconds, so a lost event is no lost failure.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from vcrecovery.detect.verdict import Kind, Verdict, judge
from vcrecovery.drivers.libvirt import DomainEvent, DomainReading, LibvirtHost
from vcrecovery.errors import BusyError, OutsideError, RefusedError, VCRecoveryError
from vcrecovery.recover.states import Episode, Outcome, Power, ServiceState, Step
from vcrecovery.recover.world import World

log = logging.getLogger("vcrecovery.watch")

TICK = 1.0
RECONNECT_DELAY = 1.0
READ_ALL_EVERY = 10.0
FALSE_ALARM_DELAY = 30.0

#: Fails a service over; raises as `fail_over` does. Arguments: service, cause, time of detection.
Recover = Callable[[str, str, float], Episode]


@dataclass(frozen=True)
class _Message:
    """What a libvirt thread tells the main loop: an event of one VM, or a host that came or went."""

    host: str
    event: DomainEvent | None = None
    connected: bool | None = None
    detail: str = ""


@dataclass
class _Watched:
    """What the watcher remembers of a service between two looks."""

    reading: DomainReading = field(default_factory=lambda: DomainReading(Power.UNREACHABLE))
    said: str = ""
    given_up: str = ""
    not_before: float = 0.0
    worker: threading.Thread | None = None


def cause_of(state: ServiceState, verdict: Verdict, said: str) -> str | None:
    """Why the service must be failed over now, or None. `said` is what libvirt says of the primary."""
    if verdict.kind is Kind.FAILED:
        return f"libvirt: {said}"
    episode = state.open_episode
    if episode is not None and (episode.request.automatic or episode.tried(Step.FENCE)):
        return f"going on with epoch {episode.epoch}, which an earlier controller left"
    return None


class Watch:
    """Watches every service of a plan until `stop` is set."""

    def __init__(self, world: World, recover: Recover) -> None:
        self._world = world
        self._recover = recover
        self._inbox: queue.Queue[_Message] = queue.Queue()
        self._watched = {name: _Watched() for name in world.plan.services}
        self._by_vm = {str(s.primary.uuid): name for name, s in world.plan.services.items()}

    def run(self, stop: threading.Event, ready: Callable[[], None] = lambda: None) -> None:
        for name, host in self._world.hosts.items():
            threading.Thread(target=self._keep_subscribed, args=(name, host, stop), daemon=True).start()
        ready()
        clock = self._world.clock
        next_reading = clock.now() + READ_ALL_EVERY
        while not stop.is_set():
            with contextlib.suppress(queue.Empty):
                self._take(self._inbox.get(timeout=TICK))
            if clock.now() >= next_reading:
                self._read_all(set(self._world.hosts))
                next_reading = clock.now() + READ_ALL_EVERY
            for service in self._watched:
                self._consider(service)

    # -- what comes in -----------------------------------------------------------------------------------------

    def _keep_subscribed(self, name: str, host: LibvirtHost, stop: threading.Event) -> None:
        """Subscribes to the host's events, again after each loss."""
        lost = threading.Event()
        said = ""
        while not stop.is_set():
            lost.clear()
            try:
                end = host.subscribe(lambda event: self._inbox.put(_Message(name, event=event)), lost.set)
            except OutsideError as error:
                if error.message != said:
                    said = error.message
                    self._inbox.put(_Message(name, connected=False, detail=str(error)))
                stop.wait(RECONNECT_DELAY)
                continue
            said = ""
            self._inbox.put(_Message(name, connected=True))
            while not stop.is_set() and not lost.wait(TICK) and host.alive():
                pass
            end()
            if not stop.is_set():
                self._inbox.put(_Message(name, connected=False, detail=f"connection to hypervisor {name} lost"))

    def _take(self, message: _Message) -> None:
        if message.event is not None:
            service = self._by_vm.get(message.event.uuid)
            if service is not None:
                log.debug("%s: libvirt event: %s", service, message.event)
                self._read(service, message.event)
        elif message.connected:
            log.info("hypervisor %s: connected, reading every VM's state", message.host)
            self._read_all({message.host})
        else:
            log.warning("hypervisor %s: %s", message.host, message.detail)
            for service, watched in self._watched.items():
                if self._world.plan.services[service].primary.hypervisor == message.host:
                    watched.reading = DomainReading(Power.UNREACHABLE, detail=message.detail)

    def _read_all(self, hosts: set[str]) -> None:
        silent: dict[str, DomainReading] = {}
        for service, watched in self._watched.items():
            host = self._world.plan.services[service].primary.hypervisor
            if host in silent:
                watched.reading = silent[host]
            elif host in hosts:
                self._read(service)
                if watched.reading.power is Power.UNREACHABLE:
                    # Each call to a host that hangs takes its whole timeout: one is enough.
                    silent[host] = watched.reading

    def _read(self, service: str, event: DomainEvent | None = None) -> None:
        primary = self._world.plan.services[service].primary
        try:
            reading = self._world.hosts[primary.hypervisor].read(str(primary.uuid))
        except OutsideError as error:
            reading = DomainReading(Power.UNREACHABLE, detail=error.message)
        known = self._watched[service].reading
        if reading.power is Power.ABSENT:
            # A transient VM is forgotten when it ends: only the event, or what was known before, says how.
            reason = event.reason if event is not None and event.stopped else known.reason
            reading = DomainReading(Power.ABSENT, reason, detail=reading.detail)
        self._watched[service].reading = reading

    # -- what is done about it ---------------------------------------------------------------------------------

    def _consider(self, service: str) -> None:
        watched = self._watched[service]
        if watched.worker is not None and watched.worker.is_alive():
            return
        now = self._world.clock.now()
        try:
            state = self._world.journal.state(service)
            if watched.reading.power is Power.RUNNING and state.seen_running_at is None:
                self._world.journal.saw_running(service, now)
        except VCRecoveryError as error:
            self._say(service, str(error), logging.ERROR)
            return
        verdict = judge(state, watched.reading.power, watched.reading.reason, now)
        if (cause := cause_of(state, verdict, str(watched.reading))) is None:
            watched.given_up = ""
            loud = verdict.kind in (Kind.STALE_PRIMARY, Kind.UNKNOWN)
            self._say(service, verdict.sentence, logging.WARNING if loud else logging.INFO)
        elif watched.given_up != cause and now >= watched.not_before:
            self._say(service, f"{service}: {cause}", logging.WARNING)
            watched.worker = threading.Thread(target=self._work, args=(service, cause, now), daemon=True)
            watched.worker.start()

    def _work(self, service: str, cause: str, detected_at: float) -> None:
        watched = self._watched[service]
        try:
            if self._recover(service, cause, detected_at).outcome is Outcome.FALSE_ALARM:
                # The state may change, so it is not given up, but looked at again after a while.
                watched.not_before = self._world.clock.now() + FALSE_ALARM_DELAY
        except BusyError:
            pass  # the other controller does the work; the next tick looks again
        except RefusedError as error:
            watched.given_up = cause
            log.error("%s: no failover: %s", service, error)
        except VCRecoveryError as error:
            watched.given_up = cause
            log.error("%s: %s", service, error)

    def _say(self, service: str, sentence: str, level: int) -> None:
        """Each thing once, until something else is to be said."""
        watched = self._watched[service]
        if watched.said != sentence:
            watched.said = sentence
            log.log(level, "%s", sentence, extra={"service": service})


def readings(world: World) -> Mapping[str, DomainReading]:
    """The state of every service's primary, for `status`. Hosts that do not answer give `UNREACHABLE`."""
    found = {}
    silent: dict[str, str] = {}
    for name, service in world.plan.services.items():
        host = service.primary.hypervisor
        try:
            if host in silent:
                raise OutsideError(silent[host])
            found[name] = world.hosts[host].read(str(service.primary.uuid))
        except OutsideError as error:
            silent[host] = error.message
            found[name] = DomainReading(Power.UNREACHABLE, detail=error.message)
    return found
