"""Events of Zabbix: what they lead to, what Zabbix is told, and that a repetition leads to nothing."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from evidence_cases import proof
from lab.waiting import wait_for
from vcrecovery.core.domain import DomainReading
from vcrecovery.core.episode import Episode, Outcome, Request, Step, Symptom
from vcrecovery.core.power import Power
from vcrecovery.core.service_state import ServiceState, Suspension
from vcrecovery.core.sighting import Sighting
from vcrecovery.detect import event_meaning, spool, zabbix_events
from vcrecovery.detect.answers import AT_MOST, Answer, Finding, answer_of, shortened
from vcrecovery.detect.event_meaning import EventMeaning
from vcrecovery.detect.zabbix_events import ZabbixEvents
from vcrecovery.drivers.libvirt import Guest
from vcrecovery.errors import ExternalError, RefusedError
from vcrecovery.operations import unattended as unattended_module
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.unattended import Unattended, until_it_ends
from vcrecovery.plan.load import load_plan
from vcrecovery.store.events import EventBook
from vcrecovery.store.journal import Journal

UUID = "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e00{:02}"
PLAN = """\
version: 1
state_dir: {folder}/state
hypervisors:
  hv1: {{site: east}}
  hv2: {{site: east}}
secondaries:
  sec1:
    network: {{bridge: vcr0, address: 10.20.0.1/24}}
    receiver: {{address: 10.10.0.1}}
services:
  web:
    primary: {{hypervisor: hv1, uuid: 6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0001, address: 127.0.0.1}}
    standby: {{secondary: sec1, address: 10.20.0.10}}
    ports: [{port}]
  mail:
    primary: {{hypervisor: hv1, uuid: 6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0002, address: 127.0.0.1}}
    standby: {{secondary: sec1, address: 10.20.0.11}}
    ports: [{port}]
  shop:
    primary: {{hypervisor: hv2, uuid: 6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0003, address: 127.0.0.1}}
    standby: {{secondary: sec1, address: 10.20.0.12}}
    ports: [{port}]
"""


@dataclass(frozen=True)
class FakeEvent:
    id: str
    tags: Mapping[str, str]
    name: str = "VM crashed"
    at: float = 1000.0
    is_problem: bool = True
    messages: tuple[str, ...] = ()

    def says(self, message: str) -> bool:
        return message in self.messages


@dataclass
class FakeApi:
    events: dict[str, FakeEvent] = field(default_factory=dict)
    down: bool = False
    asked: int = 0
    told: list[tuple[str, str]] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)

    def _answer(self) -> None:
        self.asked += 1
        if self.down:
            raise ExternalError("Zabbix's API does not answer")

    def event(self, number: str) -> FakeEvent | None:
        self._answer()
        return self.events.get(number)

    def acknowledge(self, number: str, message: str) -> None:
        self.comment(number, message)
        self.acknowledged.append(number)

    def comment(self, number: str, message: str) -> None:
        self._answer()
        self.told.append((number, message))

    def open_problems(self) -> Sequence[str]:
        self._answer()
        return [number for number, event in self.events.items() if event.is_problem]


class FakeHost:
    """What libvirt says of every VM of a hypervisor."""

    def __init__(self) -> None:
        self.reading = DomainReading(Power.RUNNING)

    def read(self, _uuid: str) -> DomainReading:
        if self.reading.power is Power.UNREACHABLE:
            raise ExternalError("hypervisor does not answer")
        return self.reading

    def guests(self) -> list[Guest]:
        """Of whoever asks whether another one's VM is here."""
        self.read("")
        return []


class FakeRecover:
    """Fails over by journal only."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.calls: list[tuple[str, Symptom]] = []
        self.causes: list[str] = []
        self.refuses = False
        self.trouble: ExternalError | None = None

    def __call__(
        self,
        service: str,
        cause: str,
        detected_at: float,
        symptom: Symptom = Symptom.NONE,
        *,
        began_at: float | None = None,
        by: str = "watch",
        on_trouble: Callable[[ExternalError], None] = lambda _error: None,
    ) -> Episode:
        self.calls.append((service, symptom))
        self.causes.append(cause)
        if self.refuses:
            raise RefusedError("web cannot be fenced", "mend that")
        if self.trouble is not None:
            on_trouble(self.trouble)
        episode = self.journal.open(service, cause, Request(automatic=True, by=by, symptom=symptom), detected_at)
        for step, at in ((Step.CONFIRM, 0.5), (Step.FENCE, 1.0), (Step.START, 1.5), (Step.PROBE, 1.6)):
            row = self.journal.begin(episode, step, detected_at)
            self.journal.end(row, detected_at + at, ok=True, evidence=proof(step, summary="hv1: shutoff"))
        self.journal.close(episode, Outcome.DONE, "served by its standby", detected_at + 2)
        return self.journal.history(service, 1)[0]


class Stage:
    """Everything but Zabbix, libvirt and the failover itself is real."""

    def __init__(self, folder: Path) -> None:
        # Bound and not listening: closed for as long as the test runs.
        self.port = socket.socket()
        self.port.bind(("127.0.0.1", 0))
        file = folder / "plan.yml"
        file.write_text(PLAN.format(folder=folder, port=self.port.getsockname()[1]))
        self.env = Environment(load_plan(file))
        self.hosts = {name: FakeHost() for name in self.env.hosts}
        self.env.hosts = dict(self.hosts)  # type: ignore[arg-type]
        self.api = FakeApi()
        self.recover = FakeRecover(self.env.journal)
        self.spool = self.env.plan.state_dir / "events"

    def say(self, power: Power, reason: str = "") -> None:
        for host in self.hosts.values():
            host.reading = DomainReading(power, reason)

    def events(self) -> ZabbixEvents:
        return ZabbixEvents(self.env, self.api, self.recover)

    def handle(self, **tags: Any) -> str:
        return self.answer(**tags).text

    def answer(self, **tags: Any) -> Answer:
        is_problem = tags.pop("is_problem", True)
        named = {f"vcr-{key}": value for key, value in tags.items()}
        meaning = EventMeaning(self.env, self.recover, self.api.comment)
        return meaning.handle(FakeEvent("5", named, is_problem=is_problem))


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    stage.port.close()


@pytest.fixture
def running(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Starts a controller that takes events; it ends with the test, or when another is started."""
    monkeypatch.setattr(zabbix_events, "LOOK_EVERY", 0.1)
    stops: list[tuple[threading.Event, threading.Thread]] = []

    def end() -> None:
        for stop, thread in stops:
            stop.set()
            thread.join(20)
            assert not thread.is_alive()
        stops.clear()

    def begin() -> None:
        end()
        stop = threading.Event()
        thread = threading.Thread(target=stage.events().run, args=(stop,))
        stops.append((stop, thread))
        thread.start()

    yield begin
    end()


def test_a_crashed_vm_is_failed_over_and_zabbix_is_told_the_timeline(stage: Stage) -> None:
    stage.say(Power.SHUTOFF, "crashed")
    said = stage.handle(kind="vm", uuid=UUID.format(1).upper())
    assert stage.recover.calls == [("web", Symptom.VM)]
    assert "web: served by its standby after 2.0 s, epoch 1" in said
    assert "+1.000 s fenced: hv1: shutoff" in said
    assert "Zabbix event 5 (VM crashed): libvirt: shutoff (crashed)" in said


@pytest.mark.parametrize(
    ("power", "reason", "tags", "said"),
    [
        (Power.RUNNING, "", {"kind": "vm", "uuid": UUID.format(1)}, "the primary is running"),
        (Power.SHUTOFF, "destroyed", {"kind": "vm", "uuid": UUID.format(1)}, "requested shutdown"),
        (Power.PAUSED, "", {"kind": "cpu-zero", "uuid": UUID.format(1)}, "the primary is paused"),
        (Power.UNREACHABLE, "", {"kind": "vm", "uuid": UUID.format(1)}, "its hypervisor does not answer"),
        (Power.RUNNING, "", {"kind": "host", "host": "hv1"}, "0 of 2 services"),
        (Power.RUNNING, "", {"kind": "site", "site": "east"}, "0 of 3 services"),
        (Power.SHUTOFF, "crashed", {"kind": "vm", "uuid": UUID.format(99)}, "no service of the plan has a VM"),
        (Power.SHUTOFF, "crashed", {"kind": "vm"}, "no service of the plan has a VM"),
        (Power.UNREACHABLE, "", {"kind": "host", "host": "hv9"}, "the plan has no service on hypervisor hv9"),
        (Power.UNREACHABLE, "", {"kind": "site", "site": "west"}, "the plan has no service on site west"),
        (Power.SHUTOFF, "crashed", {"kind": "meteor"}, "tag vcr-kind is 'meteor'"),
        (Power.SHUTOFF, "crashed", {}, "tag vcr-kind is ''"),
        (Power.SHUTOFF, "crashed", {"kind": "vm", "uuid": UUID.format(1), "is_problem": False}, "is over"),
    ],
)
def test_an_event_that_lies_leads_to_nothing_and_is_told_so(
    stage: Stage, power: Power, reason: str, tags: dict[str, Any], said: str
) -> None:
    stage.say(power, reason)
    assert said in stage.handle(**tags)
    assert stage.recover.calls == []


@pytest.mark.parametrize(("kind", "symptom"), [("cpu-zero", Symptom.CPU_ZERO), ("cpu-high", Symptom.CPU_HIGH)])
def test_a_suspicion_needs_closed_ports(stage: Stage, kind: str, symptom: Symptom) -> None:
    stage.port.listen()
    said = stage.handle(kind=kind, uuid=UUID.format(1))
    assert stage.recover.calls == []
    assert "answers" in said
    stage.port.close()
    assert "served by its standby" in stage.handle(kind=kind, uuid=UUID.format(1))
    assert stage.recover.calls == [("web", symptom)]


def test_overload_that_answers_moves_nothing_and_says_so(stage: Stage) -> None:
    stage.port.listen()
    assert "overloaded, nothing is moved" in stage.handle(kind="cpu-high", uuid=UUID.format(1))


def test_a_silent_hypervisor_takes_all_its_services_along_and_no_other(stage: Stage) -> None:
    stage.say(Power.UNREACHABLE)
    said = stage.handle(kind="host", host="hv1")
    assert sorted(stage.recover.calls) == [("mail", Symptom.HOST), ("web", Symptom.HOST)]
    assert "hypervisor hv1: 2 of 2 services are served by their standbys" in said


def test_a_site_is_all_its_hypervisors(stage: Stage) -> None:
    stage.say(Power.UNREACHABLE)
    said = stage.handle(kind="site", site="east")
    assert sorted(name for name, _ in stage.recover.calls) == ["mail", "shop", "web"]
    assert "site east: 3 of 3 services" in said


def test_the_hypervisors_of_a_site_are_asked_at_the_same_time(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each that is silent takes its whole time, and no service begins before that."""
    stage.say(Power.UNREACHABLE)
    both = threading.Barrier(2)

    def read(_uuid: str) -> DomainReading:
        both.wait(60)
        raise ExternalError("hypervisor does not answer")

    for host in stage.hosts.values():
        monkeypatch.setattr(host, "read", read)
    assert "site east: 3 of 3 services" in stage.handle(kind="site", site="east")
    assert not both.broken


def test_a_journal_that_cannot_be_read_for_a_moment_gives_no_service_up(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.say(Power.UNREACHABLE)
    state, tries = stage.env.journal.state, Counter[str]()

    def once(service: str) -> ServiceState:
        tries[service] += 1
        if service == "mail" and tries[service] == 1:
            raise ExternalError("the journal cannot be used: database is locked")
        return state(service)

    monkeypatch.setattr(event_meaning, "retry_delay", lambda _failures: 0.0)
    monkeypatch.setattr(stage.env.journal, "state", once)
    said = stage.handle(kind="host", host="hv1")
    assert "hypervisor hv1: 2 of 2 services are served by their standbys" in said


def test_a_transient_vm_that_crashed_is_gone(stage: Stage) -> None:
    stage.say(Power.ABSENT)
    stage.handle(kind="vm", uuid=UUID.format(1))
    assert stage.recover.calls == [("web", Symptom.VM)]


def test_a_vm_that_is_off_for_no_known_reason_has_failed_when_zabbix_saw_it_run(stage: Stage) -> None:
    """libvirt has forgotten why, since its host has rebooted."""
    stage.say(Power.SHUTOFF)
    stage.handle(kind="vm", uuid=UUID.format(1))
    assert stage.recover.calls == [("web", Symptom.LOST)]


def test_nor_has_one_that_the_watcher_saw_being_stopped(stage: Stage) -> None:
    stage.env.journal.saw({"web": (Sighting(Power.SHUTOFF, "shutdown", 900.0, 990.0, "hv1"), None)})
    stage.say(Power.SHUTOFF)
    assert "it was stopped on request before" in stage.handle(kind="vm", uuid=UUID.format(1))
    assert stage.recover.calls == []


def test_a_hypervisors_event_says_nothing_of_a_vm_that_is_off(stage: Stage) -> None:
    """It may have been shut down last week."""
    stage.say(Power.SHUTOFF)
    assert "0 of 2 services" in stage.handle(kind="host", host="hv1")
    assert stage.recover.calls == []


def test_a_pause_and_a_refusal_are_told(stage: Stage) -> None:
    stage.say(Power.SHUTOFF, "crashed")
    stage.env.journal.suspend("web", Suspension(0.0, None, "work"))
    assert "down, and automatic failover is suspended" in stage.handle(kind="vm", uuid=UUID.format(1))
    stage.env.journal.suspend("web", None)
    stage.recover.refuses = True
    assert "no failover: web cannot be fenced; mend that" in stage.handle(kind="vm", uuid=UUID.format(1))


def test_zabbix_is_told_of_no_negative_time() -> None:
    """The clock was set back by an hour while it was failed over."""
    episode = Episode(1, "web", 1, "a test", Request(), 5000.0, (), 1400.0, Outcome.DONE, "web is served")
    said = answer_of("", [Finding("web", "", episode)]).text
    assert said.startswith("web: served by its standby after an unknown time (the clock was set back), epoch 1\n")


def test_one_that_is_paused_between_two_tries_is_looked_at_again_after_that(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.say(Power.SHUTOFF, "crashed")
    stage.env.journal.saw_running("web", 1.0)

    def attempt(*_words: object, **_more: object) -> Episode:
        stage.env.journal.suspend("web", Suspension(0.0, None, "work"))
        raise ExternalError("the neighbours still answer")

    unattended = Unattended(stage.env, reporter=None)  # type: ignore[arg-type]
    monkeypatch.setattr(unattended_module, "fail_over_locked", attempt)
    monkeypatch.setattr(stage.env.clock, "sleep", lambda _seconds: None)
    meaning = EventMeaning(stage.env, unattended, stage.api.comment)
    answer = meaning.handle(FakeEvent("5", {"vcr-kind": "vm", "vcr-uuid": UUID.format(1)}))
    assert "automatic failover of web is suspended" in answer.text
    assert not answer.final


def test_one_that_an_operator_was_refused_meanwhile_is_tried_again(stage: Stage) -> None:
    """What was requested by hand without --force says nothing about the failure."""
    journal, tries = stage.env.journal, list[Episode]()
    request = Request(automatic=True, by="Zabbix", symptom=Symptom.HOST)

    def attempt() -> Episode:
        tries.append(journal.open("web", "hypervisor hv1 does not answer", request, 1.0))
        raise ExternalError("the neighbours still answer")

    again = until_it_ends(journal, "web", attempt)
    with pytest.raises(ExternalError, match="neighbours"):
        again()
    journal.close(tries[0], Outcome.REFUSED, "web cannot be fenced", 2.0)
    with pytest.raises(ExternalError, match="neighbours"):
        again()
    journal.close(tries[1], Outcome.FALSE_ALARM, "no failure", 3.0)
    assert again().outcome is Outcome.FALSE_ALARM
    assert len(tries) == 2


def test_a_service_that_was_failed_over_already_gets_that_timeline(stage: Stage) -> None:
    stage.say(Power.SHUTOFF, "crashed")
    first = stage.handle(kind="vm", uuid=UUID.format(1))
    assert stage.handle(kind="vm", uuid=UUID.format(1)) == first
    assert len(stage.recover.calls) == 1


def test_one_whose_standby_has_only_started_is_answered_when_it_serves(stage: Stage) -> None:
    """Somebody else is at work on it: how that ends is not known yet."""
    stage.say(Power.SHUTOFF, "crashed")
    journal = stage.env.journal
    journal.saw_running("web", 1.0)
    episode = journal.open("web", "libvirt: shutoff (crashed)", Request(automatic=True, by="watch"), 1.0)
    for step in (Step.CONFIRM, Step.FENCE, Step.START):
        journal.end(journal.begin(episode, step, 1.0), 1.0, ok=True, evidence=proof(step))

    def goes_on(*_words: object, **_more: object) -> Episode:
        journal.end(journal.begin(episode, Step.PROBE, 2.0), 2.0, ok=True, evidence=proof(Step.PROBE))
        journal.close(episode, Outcome.DONE, "served by its standby", 3.0)
        return journal.history("web", 1)[0]

    stage.recover = goes_on  # type: ignore[assignment]
    assert "web: served by its standby after 2.0 s, epoch 1" in stage.handle(kind="vm", uuid=UUID.format(1))


@pytest.mark.parametrize(
    ("power", "reason", "tags", "handled"),
    [
        (Power.SHUTOFF, "crashed", {"kind": "vm", "uuid": UUID.format(1)}, True),
        (Power.SHUTOFF, "destroyed", {"kind": "vm", "uuid": UUID.format(1)}, True),
        # No failure now, and while the problem lasts there may be one later: it would stay acknowledged then.
        (Power.RUNNING, "", {"kind": "vm", "uuid": UUID.format(1)}, False),
        (Power.RUNNING, "", {"kind": "host", "host": "hv1"}, False),
        (Power.SHUTOFF, "crashed", {"kind": "vm", "uuid": UUID.format(1), "is_problem": False}, True),
        # Nobody has done anything about it.
        (Power.PAUSED, "", {"kind": "cpu-zero", "uuid": UUID.format(1)}, False),
        (Power.UNREACHABLE, "", {"kind": "vm", "uuid": UUID.format(1)}, False),
        (Power.SHUTOFF, "crashed", {"kind": "vm", "uuid": UUID.format(99)}, False),
    ],
)
def test_only_what_is_done_or_was_no_failure_is_handled(
    stage: Stage, power: Power, reason: str, tags: dict[str, Any], handled: bool
) -> None:
    stage.say(power, reason)
    assert stage.answer(**tags).handled is handled


def test_a_refusal_and_a_suspension_are_not_handled(stage: Stage) -> None:
    stage.say(Power.SHUTOFF, "crashed")
    stage.env.journal.suspend("web", Suspension(0.0, None, "work"))
    suspended = stage.answer(kind="vm", uuid=UUID.format(1))
    assert not suspended.handled
    assert suspended.text.endswith("next: `vcrecovery explain web`")
    stage.env.journal.suspend("web", None)
    stage.recover.refuses = True
    assert not stage.answer(kind="host", host="hv1").handled


def test_a_refusal_leaves_the_problem_unacknowledged(stage: Stage, running: Callable[[], None]) -> None:
    crashed(stage)
    stage.recover.refuses = True
    running()
    wait_for(lambda: stage.api.told, "the answer")
    assert stage.api.acknowledged == []


def crashed(stage: Stage) -> None:
    stage.say(Power.SHUTOFF, "crashed")
    stage.api.events["5"] = FakeEvent("5", {"vcr": "recover", "vcr-kind": "vm", "vcr-uuid": UUID.format(1)})


def test_an_event_in_the_folder_is_answered_once(stage: Stage, running: Callable[[], None]) -> None:
    crashed(stage)
    running()
    wait_for(lambda: (stage.spool / "watch.sock").exists(), "the socket")
    for _ in range(3):
        spool.put(stage.spool, "5")
    wait_for(lambda: stage.api.told, "the answer")
    wait_for(lambda: not spool.waiting(stage.spool), "the empty folder")
    running()
    spool.put(stage.spool, "5")
    wait_for(lambda: not spool.waiting(stage.spool), "the empty folder")
    assert len(stage.api.told) == 1
    assert stage.api.acknowledged == ["5"]
    assert len(stage.recover.calls) == 1


def test_what_breaks_once_does_not_end_the_taking_of_events(
    stage: Stage, running: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, broken = spool.waiting, threading.Event()

    def once(folder: Path) -> list[str]:
        if not broken.is_set():
            broken.set()
            raise RuntimeError("can't start new thread")
        return waiting(folder)

    monkeypatch.setattr(spool, "waiting", once)
    running()
    assert broken.wait(60)
    crashed(stage)
    spool.put(stage.spool, "5")
    wait_for(lambda: stage.api.told, "the answer")


def test_a_command_that_was_lost_is_caught_up_with(stage: Stage, running: Callable[[], None]) -> None:
    crashed(stage)
    running()
    wait_for(lambda: stage.api.told, "the answer")
    assert stage.recover.calls == [("web", Symptom.VM)]


def test_an_event_waits_for_the_api(stage: Stage, running: Callable[[], None]) -> None:
    crashed(stage)
    stage.api.down = True
    running()
    wait_for(lambda: (stage.spool / "watch.sock").exists(), "the socket")
    spool.put(stage.spool, "5")
    wait_for(lambda: not spool.waiting(stage.spool), "the empty folder")
    wait_for(lambda: stage.api.asked >= 2, "the question")
    # Killed and started again meanwhile: it is in the journal.
    running()
    stage.api.down = False
    wait_for(lambda: stage.api.told, "the answer")
    assert len(stage.recover.calls) == 1


def test_what_was_done_and_not_told_is_told_at_the_next_start(stage: Stage, running: Callable[[], None]) -> None:
    crashed(stage)
    book = EventBook(stage.env.journal)
    book.take("5", 1.0)
    book.answer("5", "web: served by its standby", final=True)
    running()
    wait_for(lambda: stage.api.told, "the answer")
    assert stage.api.told == [("5", "web: served by its standby")]
    assert stage.recover.calls == []


def test_what_was_told_before_the_controller_died_is_not_told_again(stage: Stage, running: Callable[[], None]) -> None:
    crashed(stage)
    book = EventBook(stage.env.journal)
    book.take("5", 1.0)
    book.answer("5", "web: served by its standby", final=True)
    stage.api.events["5"] = replace(stage.api.events["5"], messages=("web: served by its standby",))
    running()
    wait_for(lambda: not book.unfinished(2.0), "the note that it was told")
    assert stage.api.told == []


def test_a_suspicion_is_looked_at_again_while_its_problem_is_open(stage: Stage, running: Callable[[], None]) -> None:
    stage.port.listen()
    stage.api.events["5"] = FakeEvent("5", {"vcr-kind": "cpu-high", "vcr-uuid": UUID.format(1)}, "CPU too high")
    running()
    wait_for(lambda: len(stage.api.told) == 1, "the first answer")
    asked = stage.api.asked
    spool.put(stage.spool, "5")
    wait_for(lambda: stage.api.asked > asked, "the second look")
    stage.port.close()

    def repeated() -> bool:
        spool.put(stage.spool, "5")
        return len(stage.api.told) >= 2

    wait_for(repeated, "the second answer")
    assert "overloaded" in stage.api.told[0][1]
    assert "served by its standby" in stage.api.told[1][1]
    assert len(stage.api.told) == 2


def test_an_event_that_does_not_exist_is_forgotten(stage: Stage, running: Callable[[], None]) -> None:
    running()
    wait_for(lambda: (stage.spool / "watch.sock").exists(), "the socket")
    spool.put(stage.spool, "77")
    wait_for(lambda: not spool.waiting(stage.spool), "the empty folder")
    wait_for(lambda: not EventBook(stage.env.journal).unfinished(0.0), "the forgotten event")
    assert stage.api.told == []


def test_trouble_is_told_before_the_end(stage: Stage, running: Callable[[], None]) -> None:
    crashed(stage)
    stage.recover.trouble = ExternalError("hypervisor hv1 was not fenced", "see that it works")
    running()
    wait_for(lambda: len(stage.api.told) == 2, "both answers")
    texts = sorted(text for _, text in stage.api.told)
    assert any("not done yet, trying again: hypervisor hv1 was not fenced" in text for text in texts)


def test_events_that_wait_for_what_is_outside_hold_no_other_up(
    stage: Stage, running: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as are worked on at once, all on a secondary that is down, and then one on another."""
    monkeypatch.setattr(zabbix_events, "AT_ONCE", 1)
    stage.say(Power.SHUTOFF, "crashed")
    for number in (1, 2):
        tags = {"vcr": "recover", "vcr-kind": "vm", "vcr-uuid": UUID.format(number)}
        stage.api.events[str(number)] = FakeEvent(str(number), tags)
    recover, stuck, release = stage.recover, threading.Event(), threading.Event()

    def is_stuck(service: str, *words: Any, **more: Any) -> Episode:
        if service == "web":
            more["on_trouble"](ExternalError("LXD on secondary sec1 does not answer"))
            stuck.set()
            assert release.wait(120)
        return recover(service, *words, **more)

    stage.recover = is_stuck  # type: ignore[assignment]
    running()
    try:
        assert stuck.wait(60)
        spool.put(stage.spool, "2")
        wait_for(lambda: "2" in [number for number, _ in stage.api.told], "the answer to the other one")
    finally:
        release.set()
    wait_for(lambda: any("web: served by its standby" in text for _, text in stage.api.told), "the first one's end")


def test_events_whose_answers_zabbix_does_not_take_hold_no_other_up(
    stage: Stage, running: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token may read events, and add no messages. As many as are worked on at once, and then another."""
    monkeypatch.setattr(zabbix_events, "AT_ONCE", 1)
    monkeypatch.setattr(zabbix_events, "retry_delay", lambda _failures: 0.1)
    stage.say(Power.SHUTOFF, "crashed")
    for number in (1, 2):
        tags = {"vcr-kind": "vm", "vcr-uuid": UUID.format(number)}
        stage.api.events[str(number)] = FakeEvent(str(number), tags, is_problem=number == 2)
    comment, tries, forbidden = stage.api.comment, Counter[str](), threading.Event()
    forbidden.set()

    def refuses(number: str, message: str) -> None:
        tries[number] += 1
        if number == "1" and forbidden.is_set():
            raise ExternalError("Zabbix forbids it to the token's user: No permissions to add comments")
        comment(number, message)

    monkeypatch.setattr(stage.api, "comment", refuses)
    monkeypatch.setattr(stage.api, "open_problems", list)
    running()
    wait_for(lambda: (stage.spool / "watch.sock").exists(), "the socket")
    spool.put(stage.spool, "1")
    wait_for(lambda: tries["1"], "the answer that is not taken")
    spool.put(stage.spool, "2")
    wait_for(lambda: "2" in [number for number, _ in stage.api.told], "the answer to the other one")
    assert stage.recover.calls == [("mail", Symptom.VM)]
    # It is tried until it is taken, and then no more.
    seen = tries["1"]
    wait_for(lambda: tries["1"] > seen, "another try")
    forbidden.clear()
    wait_for(lambda: not EventBook(stage.env.journal).unfinished(2.0), "its end")
    assert [message for number, message in stage.api.told if number == "1"] == ["nothing done: this problem is over"]


def test_a_long_answer_is_cut_at_a_line() -> None:
    text = "\n".join(f"service-{number}: served by its standby after 1.0 s, epoch 1" for number in range(100))
    cut = shortened(text)
    assert len(cut) <= AT_MOST
    assert cut.splitlines()[-1].startswith("... and ")
    assert cut.splitlines()[-2] in text.splitlines()
    assert shortened("short") == "short"


def test_a_wait_that_breaks_again_and_again_is_told_once(
    stage: Stage, running: Callable[[], None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    waits = list[int]()

    def breaks(*_words: object) -> None:
        waits.append(1)
        raise ValueError("filedescriptor out of range in select()")

    monkeypatch.setattr(ZabbixEvents, "_wait", breaks)
    running()
    wait_for(lambda: len(waits) >= 5, "the fifth try")
    assert len([text for text in caplog.messages if "out of range in select" in text]) == 1
