"""What an event of Zabbix means, and what is done about it.

An event only says where to look. What it means is judged by the same code as what the watcher itself sees, and each
failover confirms it again, so an event that lies does nothing but get an answer that says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from vcrecovery.core.cpu import SeenSymptom
from vcrecovery.core.episode import Episode, Symptom
from vcrecovery.core.meaning import Meaning
from vcrecovery.core.power import Power
from vcrecovery.core.sentences import listed
from vcrecovery.core.service_state import Side
from vcrecovery.core.sighting import Place, Sighting
from vcrecovery.core.verdict import FAILURES, Circumstances, Kind, Verdict, judge
from vcrecovery.detect.answers import Answer, Finding, answer_of
from vcrecovery.drivers.runtime import each
from vcrecovery.errors import BusyError, ExternalError, NotNowError, RefusedError, in_words
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.failover import retry_delay

log = logging.getLogger("vcrecovery.zabbix")

#: So many different obstacles of one event are told while it is tried.
MOST_TROUBLES = 8
#: Seconds between two tries while another controller is at work on the service.
BUSY_DELAY = 0.5


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


class Recover(Protocol):
    """Fails services over, as `operations.unattended` does."""

    def __call__(
        self,
        service: str,
        cause: str,
        detected_at: float,
        symptom: Symptom = Symptom.NONE,
        *,
        began_at: float | None = None,
        by: str = "watch",
        on_trouble: Callable[[ExternalError], None] = ...,
    ) -> Episode: ...


class EventMeaning:
    """Handles events of the VMs of `env`. `tell` gets what may interest before the answer: the event's id, a text."""

    def __init__(self, env: Environment, recover: Recover, tell: Callable[[str, str], None]) -> None:
        self._env = env
        self._recover = recover
        self._tell = tell
        self._by_vm = {str(s.primary.uuid): name for name, s in env.plan.services.items()}

    def handle(self, event: Event) -> Answer:
        """Does what the event calls for; what Zabbix is told."""
        kind, plan = event.tags.get("vcr-kind", ""), self._env.plan
        if not event.is_problem:
            return Answer("nothing done: this problem is over", final=True, handled=True)
        if kind in ("vm", "cpu-zero", "cpu-high"):
            uuid = event.tags.get("vcr-uuid", "").strip().lower()
            if (service := self._by_vm.get(uuid)) is None:
                return Answer(f"nothing done: no service of the plan has a VM {uuid[:64]!r}", final=True)
            return answer_of("", [self._look_and_act(event, service, Symptom(kind))])
        if kind == "host":
            hosts, what = [event.tags.get("vcr-host", "")], f"hypervisor {event.tags.get('vcr-host', '')[:64]}"
        elif kind == "site":
            site = event.tags.get("vcr-site", "")
            hosts, what = [h for h, entry in plan.hypervisors.items() if entry.site == site], f"site {site[:64]}"
        else:
            return Answer(f"nothing done: the event's tag vcr-kind is {kind[:64]!r}", final=True)
        names = self._env.whereabouts.on(set(hosts))
        if not names:
            return Answer(f"nothing done: the plan has no service on {what}", final=True)
        return self._failed_as_a_whole(event, what, hosts, names)

    def _failed_as_a_whole(self, event: Event, what: str, hosts: Sequence[str], names: Sequence[str]) -> Answer:
        """All services of some hypervisors, at the same time."""
        said = f"{what} does not answer" if len(hosts) == 1 else f"{what} has failed: {listed(hosts)} do not answer"
        log.warning("%s (event %s)", said, event.id)
        silent: dict[str, Place | None] = {}
        findings: dict[str, Finding] = {}
        homes = self._env.whereabouts.homes()

        def ask(host: str) -> None:
            silent[host] = self._silent_place(host, next((name for name in names if homes[name] == host), None))

        def work(name: str) -> None:
            reading = silent.get(homes[name])
            failures = 0
            while name not in findings:
                try:
                    findings[name] = self._look_and_act(event, name, Symptom.HOST, said, reading)
                except ExternalError as error:  # the journal; the others are not asked again for that
                    failures += 1
                    log.error("%s: %s; trying again", name, error)
                    self._env.clock.sleep(retry_delay(failures))
                except Exception as error:  # noqa: BLE001  the others get their answer all the same
                    findings[name] = Finding(name, in_words(error))

        each(self._env.runtime, ask, hosts, f"event-{event.id}")
        each(self._env.runtime, work, names, f"event-{event.id}")
        return answer_of(what, [findings[name] for name in names])

    def _silent_place(self, host: str, service: str | None) -> Place | None:
        """Where all that was on `host` is, if that is silent: each question takes its whole time, so one is enough."""
        place = self._env.whereabouts.find(service) if service is not None else None
        return place if place is not None and (place.host, place.reading.power) == (host, Power.UNREACHABLE) else None

    def _look_and_act(
        self, event: Event, service: str, symptom: Symptom, said: str = "", place: Place | None = None
    ) -> Finding:
        """Judges the service, with Zabbix's word as one signal, and fails it over when it has failed."""
        try:
            place = place or self._env.whereabouts.find(service)
            verdict = self._judge(event, service, symptom, said, place)
            if verdict.kind is Kind.FAILED_OVER and self._env.journal.state(service).open_episode is not None:
                pass  # its standby has been started and does not serve yet: how that ends is waited for
            elif verdict.kind not in FAILURES:
                return self._left_alone(service, verdict, place)
            cause = f"Zabbix event {event.id} ({event.name}): {verdict.cause}"
            return Finding(service, "", self._fail_over(event, service, cause, verdict, symptom))
        except RefusedError as error:
            return Finding(service, f"no failover: {error}", will_change=isinstance(error, NotNowError))

    def _judge(self, event: Event, service: str, symptom: Symptom, said: str, place: Place) -> Verdict:
        state, entry = self._env.journal.state(service), self._env.plan.services[service]
        detection, now, reading = self._env.plan.detection, self._env.clock.now(), place.reading
        if state.seen_running_at is None and state.side is Side.PRIMARY:
            # Zabbix has seen it: what was never running raises no problem.
            self._env.journal.saw_running(service, event.at)
            state = self._env.journal.state(service)
        if not detection.embedded and place.host != self._env.whereabouts.home(service):
            # Nobody else writes it down.
            seen = Sighting(reading.power, reading.reason, now, now, place.host)
            self._env.journal.saw({service: (seen, None)})
        if not detection.embedded or state.seen is None:
            # Nobody else looks. What made the problem of a VM is that it ran, and ceased to; that of a hypervisor may
            # have begun long after somebody stopped the VM.
            ran = Sighting(Power.RUNNING, "", event.at, event.at, place.host)
            state = replace(state, seen=None if symptom is Symptom.HOST else ran)
        reason, seen_symptom = reading.reason, None
        if symptom is Symptom.VM:
            left = state.seen is not None and state.seen.meaning is Meaning.MIGRATED
            if reading.power is Power.ABSENT and not left:
                # A transient VM is forgotten when it ends; why, only Zabbix has heard.
                reason = reason or "crashed"
        else:
            found = self._env.probes.answering(str(entry.primary.address), entry.ports, entry.timeouts.confirm)
            seen_symptom = SeenSymptom(symptom, said or self._seen(symptom), tuple(found))
        lasted = now - event.at
        also = Circumstances(
            seen_symptom,
            stalled=lasted,
            stalled_for=detection.stalled_for,
            starting=reading.starts_by_itself if 0 <= lasted < detection.autostart_within else "",
        )
        return judge(state, reading.power, reason, now, cool_down=detection.cool_down, also=also)

    def _seen(self, symptom: Symptom) -> str:
        detection = self._env.plan.detection
        if symptom is Symptom.CPU_ZERO:
            return f"has used no CPU for {detection.cpu_zero_for:g} s"
        return f"has used {detection.cpu_high:g} % or more of its CPUs for {detection.cpu_high_for:g} s"

    def _left_alone(self, service: str, verdict: Verdict, place: Place) -> Finding:
        if verdict.kind is Kind.FAILED_OVER:
            # By another event, by the watcher itself, or by an operator.
            return Finding(service, "", self._env.journal.history(service, 1)[0])
        well = (verdict.kind, verdict.symptom) == (Kind.HEALTHY, Symptom.NONE) and place.reading.power is Power.RUNNING
        was_none = well or verdict.kind is Kind.INTENDED
        return Finding(service, verdict.sentence, will_change=verdict.kind is not Kind.INTENDED, was_none=was_none)

    def _fail_over(self, event: Event, service: str, cause: str, verdict: Verdict, symptom: Symptom) -> Episode:
        told: list[str] = []

        def on_trouble(error: ExternalError) -> None:
            # It may take long, and whoever looks at Zabbix should not have to guess.
            if error.message not in told and len(told) < MOST_TROUBLES:
                told.append(error.message)
                self._env.runtime.spawn(partial(self._tell_trouble, event.id, service, error), f"event-{event.id}")

        while True:
            try:
                return self._recover(
                    service,
                    cause,
                    event.at,
                    symptom if verdict.symptom in (Symptom.NONE, Symptom.ENDED) else verdict.symptom,
                    began_at=verdict.began_at,
                    by="Zabbix",
                    on_trouble=on_trouble,
                )
            except BusyError:
                self._env.clock.sleep(BUSY_DELAY)

    def _tell_trouble(self, event: str, service: str, error: ExternalError) -> None:
        try:
            self._tell(event, f"{service}: not done yet, trying again: {error}")
        except ExternalError as failure:
            log.warning("event %s: %s", event, failure)
