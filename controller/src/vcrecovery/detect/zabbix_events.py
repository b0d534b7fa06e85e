"""Zabbix as the detector: takes the events that its action hands over, judges, acts, and tells Zabbix the result.

An event only says where to look. What it means is judged by the same code as what the watcher itself sees, and each
failover confirms it again, so an event that lies does nothing but get an answer that says so.
"""

from __future__ import annotations

import logging
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Protocol

from vcrecovery.detect import spool
from vcrecovery.detect.answers import Answer, Finding, answer_of, shortened
from vcrecovery.detect.cpu import Suspicion
from vcrecovery.detect.verdict import FAILURES, Kind, Verdict, judge, listed
from vcrecovery.drivers.libvirt import DomainReading
from vcrecovery.drivers.probe import open_ports
from vcrecovery.errors import BusyError, OutsideError, RefusedError, VCRecoveryError
from vcrecovery.recover.events import EventBook
from vcrecovery.recover.failover import retry_delay
from vcrecovery.recover.states import Doubt, Episode, Power, Side
from vcrecovery.recover.world import World

log = logging.getLogger("vcrecovery.zabbix")

#: Seconds: between looks into the folder without a call, and between questions for problems whose command was lost.
LOOK_EVERY = 1.0
CATCH_UP_EVERY = 60.0
#: Seconds between two tries while another controller is at work on the service.
BUSY_DELAY = 0.5
#: Events that are worked on at the same time. Further ones wait in the folder.
AT_ONCE = 64


class Event(Protocol):
    """What the API says of an event."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def tags(self) -> Mapping[str, str]: ...
    @property
    def at(self) -> float:
        """When the problem began."""

    @property
    def is_problem(self) -> bool:
        """Whether its problem is still open: not a recovery event, and not resolved since."""

    def says(self, message: str) -> bool:
        """Whether the message was added already."""


class Api(Protocol):
    """The part of Zabbix's API that is needed. Every call raises OutsideError when the API does not answer."""

    def event(self, number: str) -> Event | None:
        """None when there is no such event, or the token may not see it."""

    def acknowledge(self, number: str, message: str) -> None:
        """Adds the message to the event's problem."""

    def open_problems(self) -> Sequence[str]:
        """The ids of the events with tag vcr=recover whose problems are open."""


class Recover(Protocol):
    """Fails services over, as `recover.unattended` does."""

    def __call__(
        self,
        service: str,
        cause: str,
        detected_at: float,
        doubt: Doubt = Doubt.NONE,
        *,
        by: str = "watch",
        on_trouble: Callable[[OutsideError], None] = ...,
    ) -> Episode: ...


class ZabbixEvents:
    """Takes events until `stop` is set."""

    def __init__(self, world: World, api: Api, recover: Recover) -> None:
        self._world = world
        self._api = api
        self._recover = recover
        self._book = EventBook(world.journal)
        self._spool = world.plan.state_dir / "events"
        self._under_way: dict[str, threading.Thread] = {}
        self._by_vm = {str(s.primary.uuid): name for name, s in world.plan.services.items()}

    def run(self, stop: threading.Event) -> None:
        said = ""
        with ExitStack() as stack:
            sock: socket.socket | None = None
            next_catch_up = 0.0
            while not stop.is_set():
                try:
                    if sock is None:
                        sock = stack.enter_context(spool.listening(self._spool))
                    found = spool.waiting(self._spool)
                    if time.monotonic() >= next_catch_up:
                        next_catch_up = time.monotonic() + CATCH_UP_EVERY
                        found += self._missed()
                    self._begin(found, stop)
                    said = ""
                except (OSError, VCRecoveryError) as error:
                    if said != str(error):
                        said = str(error)
                        log.error("events of Zabbix cannot be taken: %s", error)
                self._wait(sock, stop)

    def _wait(self, sock: socket.socket | None, stop: threading.Event) -> None:
        """Until somebody calls, or it is time to look anyway."""
        if sock is None:
            stop.wait(LOOK_EVERY)
        elif select.select([sock], [], [], LOOK_EVERY)[0]:
            sock.recv(64)

    def _missed(self) -> list[str]:
        """What an earlier controller left, and problems whose command never arrived."""
        left = [event.id for event in self._book.unfinished(self._world.clock.now())]
        try:
            left += self._api.open_problems()
        except OutsideError as error:
            log.warning("%s", error)
        return list(dict.fromkeys(left))

    def _begin(self, events: Sequence[str], stop: threading.Event) -> None:
        """Raises OutsideError when the journal cannot be written; the events stay in the folder then."""
        self._under_way = {event: thread for event, thread in self._under_way.items() if thread.is_alive()}
        for event in dict.fromkeys(events):
            if event in self._under_way or len(self._under_way) >= AT_ONCE:
                continue
            taken = self._book.take(event, self._world.clock.now())
            spool.remove(self._spool, event)
            if not taken.finished:
                thread = threading.Thread(target=self._work, args=(event, stop), name=f"event-{event}", daemon=True)
                self._under_way[event] = thread
                thread.start()

    # -- one event ---------------------------------------------------------------------------------------------

    def _work(self, event: str, stop: threading.Event) -> None:
        """Until the event is answered. Zabbix may be down meanwhile; what it knows is kept in the journal."""
        failures, said = 0, ""
        while not stop.is_set():
            try:
                self._answer(event)
                return
            except OutsideError as error:
                failures += 1
                if said != str(error):
                    said = str(error)
                    log.error("event %s: %s; trying again until it works", event, error)
                stop.wait(retry_delay(failures))
            except VCRecoveryError as error:
                log.error("event %s: %s", event, error)
                return

    def _answer(self, event: str) -> None:
        taken = self._book.take(event, self._world.clock.now())
        found = self._api.event(event)
        if found is None:
            log.warning("event %s: Zabbix knows no such event, or the token may not see it", event)
            self._book.forget(event)
            return
        if not taken.final:
            log.info("event %s: %s", event, found.name)
            answer = self.handle(found)
            self._book.answer(event, answer.text, final=answer.final)
            taken = self._book.take(event, self._world.clock.now())
        if taken.told_at is None and taken.answer is not None:
            # A controller may have died after it had told it.
            if not found.says(shortened(taken.answer)):
                self._tell(event, taken.answer)
            self._book.told(event, self._world.clock.now())

    def _tell(self, event: str, text: str) -> None:
        for line in text.splitlines():
            log.info("event %s: %s", event, line)
        self._api.acknowledge(event, shortened(text))

    def handle(self, event: Event) -> Answer:
        """Does what the event calls for; what Zabbix is told."""
        kind, plan = event.tags.get("vcr-kind", ""), self._world.plan
        if not event.is_problem:
            return Answer("nothing done: this problem is over", final=True)
        if kind in ("vm", "cpu-zero", "cpu-high"):
            uuid = event.tags.get("vcr-uuid", "").strip().lower()
            if (service := self._by_vm.get(uuid)) is None:
                return Answer(f"nothing done: no service of the plan has a VM {uuid[:64]!r}", final=True)
            return answer_of("", [self._look_and_act(event, service, Doubt(kind))])
        if kind == "host":
            hosts, what = [event.tags.get("vcr-host", "")], f"hypervisor {event.tags.get('vcr-host', '')[:64]}"
        elif kind == "site":
            site = event.tags.get("vcr-site", "")
            hosts, what = [h for h, entry in plan.hypervisors.items() if entry.site == site], f"site {site[:64]}"
        else:
            return Answer(f"nothing done: the event's tag vcr-kind is {kind[:64]!r}", final=True)
        names = [name for name, service in plan.services.items() if service.primary.hypervisor in hosts]
        if not names:
            return Answer(f"nothing done: the plan has no service on {what}", final=True)
        return self._failed_as_a_whole(event, what, hosts, names)

    def _failed_as_a_whole(self, event: Event, what: str, hosts: Sequence[str], names: Sequence[str]) -> Answer:
        """All services of some hypervisors, at the same time."""
        said = f"{what} does not answer" if len(hosts) == 1 else f"{what} has failed: {listed(hosts)} do not answer"
        log.warning("%s (event %s)", said, event.id)
        silent = {host: self._reading_of_any(host, names) for host in hosts}
        findings: dict[str, Finding] = {}

        def work(name: str) -> None:
            host = self._world.plan.services[name].primary.hypervisor
            findings[name] = self._look_and_act(event, name, Doubt.HOST, said, silent[host])

        threads = [threading.Thread(target=work, args=(name,), daemon=True) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return answer_of(what, [findings.get(name, Finding(name, "an internal error, see the log")) for name in names])

    def _reading_of_any(self, host: str, names: Sequence[str]) -> DomainReading | None:
        """UNREACHABLE when the hypervisor is silent: each question to one takes its whole time, so one is enough."""
        service = next((name for name in names if self._world.plan.services[name].primary.hypervisor == host), None)
        if service is None:
            return None
        reading = self._read(service)
        return reading if reading.power is Power.UNREACHABLE else None

    def _read(self, service: str) -> DomainReading:
        primary = self._world.plan.services[service].primary
        try:
            return self._world.hosts[primary.hypervisor].read(str(primary.uuid))
        except OutsideError as error:
            return DomainReading(Power.UNREACHABLE, detail=error.message)

    def _look_and_act(
        self, event: Event, service: str, doubt: Doubt, said: str = "", reading: DomainReading | None = None
    ) -> Finding:
        """Judges the service, with Zabbix's word as one signal, and fails it over when it has failed."""
        try:
            verdict = self._judge(event, service, doubt, said, reading or self._read(service))
            if verdict.kind not in FAILURES:
                return self._left_alone(service, verdict)
            cause = f"Zabbix event {event.id} ({event.name}): {verdict.cause}"
            return Finding(service, "", self._fail_over(event, service, cause, verdict.doubt or doubt))
        except RefusedError as error:
            return Finding(service, f"no failover: {error}")

    def _judge(self, event: Event, service: str, doubt: Doubt, said: str, reading: DomainReading) -> Verdict:
        state, entry = self._world.journal.state(service), self._world.plan.services[service]
        if state.seen_running_at is None and state.side is Side.PRIMARY:
            # Zabbix has seen it: what was never running raises no problem.
            self._world.journal.saw_running(service, event.at)
            state = self._world.journal.state(service)
        reason, suspicion = reading.reason, None
        if doubt is Doubt.VM:
            # A transient VM is forgotten when it ends; why, only Zabbix has heard.
            reason = reason or ("crashed" if reading.power is Power.ABSENT else "")
        else:
            address = str(entry.primary.address)
            found = open_ports(address, [port.tcp for port in entry.ports], entry.timeouts.confirm)
            suspicion = Suspicion(doubt, said or self._seen(doubt), tuple(f"{address}:{port}" for port in found))
        now, cool_down = self._world.clock.now(), self._world.plan.detection.cool_down
        return judge(state, reading.power, reason, now, suspicion=suspicion, cool_down=cool_down)

    def _seen(self, doubt: Doubt) -> str:
        detection = self._world.plan.detection
        if doubt is Doubt.CPU_ZERO:
            return f"has used no CPU for {detection.cpu_zero_for:g} s"
        return f"has used {detection.cpu_high:g} % or more of its CPUs for {detection.cpu_high_for:g} s"

    def _left_alone(self, service: str, verdict: Verdict) -> Finding:
        if verdict.kind is Kind.FAILED_OVER:
            # By another event, by the watcher itself, or by an operator.
            return Finding(service, "", self._world.journal.history(service, 1)[0])
        return Finding(service, verdict.sentence, will_change=verdict.kind is not Kind.INTENDED)

    def _fail_over(self, event: Event, service: str, cause: str, doubt: Doubt) -> Episode:
        told: list[str] = []

        def on_trouble(error: OutsideError) -> None:
            # It may take long, and whoever looks at Zabbix should not have to guess.
            if not told:
                told.append(error.message)
                threading.Thread(target=self._tell_trouble, args=(event.id, service, error), daemon=True).start()

        while True:
            try:
                return self._recover(service, cause, event.at, doubt, by="Zabbix", on_trouble=on_trouble)
            except BusyError:
                self._world.clock.sleep(BUSY_DELAY)

    def _tell_trouble(self, event: str, service: str, error: OutsideError) -> None:
        try:
            self._tell(event, f"{service}: not done yet, trying again: {error}")
        except OutsideError as failure:
            log.warning("event %s: %s", event, failure)
