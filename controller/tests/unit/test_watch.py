"""The watcher with hypervisors that come and go: what real ones cannot show in a test's time."""

from __future__ import annotations

import logging
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.waiting import wait_for
from vcrecovery.core.domain import DomainEvent, DomainReading, DomainUsage
from vcrecovery.core.episode import Episode, Request, Step, Symptom
from vcrecovery.core.power import Power
from vcrecovery.core.service_state import Suspension
from vcrecovery.detect import host_watch, watch
from vcrecovery.detect.host_watch import HostWatch, Message, NotHeard
from vcrecovery.detect.watch import Watch
from vcrecovery.errors import ExternalError, NotNowError, RefusedError
from vcrecovery.operations.environment import Environment
from vcrecovery.plan.load import load_plan

PLAN = """\
version: 1
state_dir: {folder}/state
detection: {{host_silent_for: 2s, embedded: {embedded}}}
hypervisors:
  hv1: {{site: east}}
  hv2: {{site: east}}
  hv3: {{site: west}}
secondaries:
  sec1:
    network: {{bridge: vcr0, address: 10.20.0.1/24}}
    receiver: {{address: 10.10.0.1}}
services:
"""
SERVICE = """\
  {name}:
    primary: {{hypervisor: {host}, uuid: 6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e000{number}, address: 127.0.0.1}}
    standby: {{secondary: sec1, address: 10.20.0.1{number}}}
    ports: [{port}]
"""


def nobody_listens(_event: DomainEvent) -> None: ...


class FakeHost:
    """A hypervisor whose VMs run, while it answers. `has`: their UUIDs."""

    def __init__(self, *has: str) -> None:
        self.has = set(has)
        self.answers = True
        self.asked = 0
        self.reading = DomainReading(Power.RUNNING)
        self.tell: Callable[[DomainEvent], None] = nobody_listens
        #: Questions to come that fail; and until when none is answered.
        self.turns_away, self.open = 0, threading.Event()
        self.open.set()

    def _ask(self) -> None:
        self.asked += 1
        if not self.answers:
            raise ExternalError("hypervisor does not answer")

    def usage(self, uuids: Sequence[str]) -> dict[str, DomainUsage]:
        self._ask()
        assert self.open.wait(60)
        if self.turns_away:
            self.turns_away -= 1
            raise ExternalError("hypervisor does not answer")
        return {uuid: DomainUsage(self.reading, self.asked * 10**7, 1) for uuid in uuids if uuid in self.has}

    def read(self, uuid: str) -> DomainReading:
        self._ask()
        return self.reading if uuid in self.has else DomainReading(Power.ABSENT)

    def subscribe(
        self,
        on_event: Callable[[DomainEvent], None],
        _on_close: Callable[[], None],
        _on_begin: Callable[[str], None],
    ) -> Callable[[], None]:
        self._ask()
        self.tell = on_event
        return lambda: None

    def alive(self) -> bool:
        return self.answers


class Recorder:
    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Symptom]] = []
        self.refusal: type[RefusedError] = RefusedError

    def __call__(
        self,
        service: str,
        cause: str,
        detected_at: float,
        symptom: Symptom = Symptom.NONE,
        *,
        began_at: float | None = None,
        to: str | None = None,
    ) -> Episode:
        self.calls.append((service, cause, symptom))
        raise self.refusal(f"{service} cannot be fenced")

    def at_work(self, _service: str) -> bool:
        return False


class Stage:
    def __init__(self, folder: Path, port: int | str, embedded: str) -> None:
        services = [("web", "hv1"), ("mail", "hv2"), ("shop", "hv3")]
        text = PLAN.format(folder=folder, embedded=embedded) + "".join(
            SERVICE.format(name=name, host=host, number=number, port=port)
            for number, (name, host) in enumerate(services, start=1)
        )
        (folder / "plan.yml").write_text(text)
        self.env = Environment(load_plan(folder / "plan.yml"))
        self.hosts = {name: FakeHost() for name in self.env.hosts}
        for service in self.env.plan.services.values():
            self.hosts[service.primary.hypervisor].has.add(str(service.primary.uuid))
        self.env.hosts = dict(self.hosts)  # type: ignore[arg-type]
        self.recover = Recorder()

    @contextmanager
    def watching(self) -> Iterator[None]:
        stop = threading.Event()
        thread = threading.Thread(target=Watch(self.env, self.recover).run, args=(stop,))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(30)
        assert not thread.is_alive()

    def uuid(self, name: str) -> str:
        return str(self.env.plan.services[name].primary.uuid)

    def seen(self) -> bool:
        return all(self.env.journal.state(name).seen_running_at for name in self.env.plan.services)


@pytest.fixture
def door() -> Iterator[socket.socket]:
    """Bound, and closed until somebody listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        yield found


@pytest.fixture
def stage(
    tmp_path: Path, door: socket.socket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Stage:
    monkeypatch.setattr(host_watch, "ASK_EVERY", 0.05)
    monkeypatch.setattr(watch, "TICK", 0.1)
    caplog.set_level(logging.INFO, "vcrecovery.watch")
    return Stage(tmp_path, door.getsockname()[1], "true")


def said_of_vms(caplog: pytest.LogCaptureFixture) -> list[str]:
    return sorted(record.getMessage() for record in caplog.records if "hypervisor hv" not in record.getMessage())


HEALTHY = ["mail: the primary is running", "shop: the primary is running", "web: the primary is running"]


def test_one_question_that_fails_at_the_start_is_no_silence(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    for host in stage.hosts.values():
        host.turns_away = 1
    with stage.watching():
        wait_for(stage.seen, "the first look")
        wait_for(lambda: len(said_of_vms(caplog)) >= len(HEALTHY), "what is said of it")
    assert said_of_vms(caplog) == HEALTHY


def test_a_hypervisor_that_is_down_at_the_start_is_told(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stage.hosts["hv3"].answers = False
    with stage.watching():
        wait_for(lambda: "shop: its hypervisor does not answer" in caplog.text, "the silence")


@pytest.mark.parametrize("earlier", [False, True])
def test_a_vm_is_not_missed_before_every_hypervisor_was_asked(
    stage: Stage, caplog: pytest.LogCaptureFixture, earlier: bool
) -> None:
    """It was migrated while nobody watched; by an `earlier` controller it was seen where it was before."""
    web, first, second = stage.uuid("web"), stage.hosts["hv1"], stage.hosts["hv2"]
    if earlier:
        with stage.watching():
            wait_for(stage.seen, "the first look")
        wait_for(lambda: stage.env.journal.state("web").seen, "what is written down")
        caplog.clear()
    first.has.remove(web)
    second.has.add(web)
    second.open.clear()
    first.asked = 0
    with stage.watching():
        wait_for(lambda: first.asked > 5, "the first one's word")
        second.open.set()
        wait_for(lambda: "web: the primary is running" in caplog.text, "the second one's")
        wait_for(lambda: "mail: the primary is running" in caplog.text, "its other one")
    assert said_of_vms(caplog) == HEALTHY


def test_a_site_that_fails_is_one_sentence_and_takes_all_its_services_along(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    with stage.watching():
        wait_for(stage.seen, "the first look")
        stage.hosts["hv1"].answers = stage.hosts["hv2"].answers = False
        wait_for(lambda: len(stage.recover.calls) >= 2, "both services")
        asked = stage.hosts["hv3"].asked
        wait_for(lambda: stage.hosts["hv3"].asked > asked + 40, "some rounds more")
    site = "site east has failed: its hypervisors hv1 and hv2 do not answer"
    assert sorted(service for service, _, _ in stage.recover.calls) == ["mail", "web"]
    assert {(cause, symptom) for _, cause, symptom in stage.recover.calls} == {
        (f"{site}, and no port of the primary answers", Symptom.HOST)
    }
    assert caplog.messages.count(site) == 1


def test_one_hypervisor_that_fails_takes_only_its_own_along(stage: Stage) -> None:
    with stage.watching():
        wait_for(stage.seen, "the first look")
        stage.hosts["hv2"].answers = False
        wait_for(lambda: stage.recover.calls, "its service")
        asked = stage.hosts["hv3"].asked
        wait_for(lambda: stage.hosts["hv3"].asked > asked + 40, "some rounds more")
    assert stage.recover.calls == [
        ("mail", "hypervisor hv2 does not answer, and no port of the primary answers", Symptom.HOST)
    ]


def test_a_transient_vm_that_ended_while_libvirtd_went_away_is_not_forgotten(stage: Stage) -> None:
    """How it ended only the event has said: afterwards the hypervisor does not know the VM any more."""
    host, vm = stage.hosts["hv2"], str(stage.env.plan.services["mail"].primary.uuid)
    with stage.watching():
        wait_for(stage.seen, "the first look")
        host.answers, host.reading = False, DomainReading(Power.ABSENT)
        host.tell(DomainEvent(vm, stopped=True, reason="crashed"))
        asked = host.asked
        wait_for(lambda: host.asked > asked + 5, "some questions in vain")
        host.answers = True
        wait_for(lambda: stage.recover.calls, "the failover")
    assert stage.recover.calls == [("mail", "libvirt: absent (crashed)", Symptom.ENDED)]


def test_ports_that_this_machine_cannot_ask_make_no_failure(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = threading.Semaphore(0)

    def full(*_words: object) -> list[str]:
        asked.release()
        raise ExternalError("127.0.0.1:80 cannot be asked: too many open files")

    monkeypatch.setattr(stage.env.probes, "answering", full)
    with stage.watching():
        wait_for(stage.seen, "the first look")
        stage.hosts["hv2"].answers = False
        for _ in range(3):
            assert asked.acquire(timeout=60)
    assert stage.recover.calls == []
    assert sum("cannot be asked" in text for text in caplog.messages) == 1


@pytest.fixture
def by_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Stage:
    """Services that are asked by `tmp_path`/check alone."""
    monkeypatch.setattr(host_watch, "ASK_EVERY", 0.05)
    monkeypatch.setattr(watch, "TICK", 0.1)
    caplog.set_level(logging.INFO, "vcrecovery.watch")
    return Stage(tmp_path, f"{{command: [{tmp_path}/check, '{{address}}']}}", "true")


def test_a_command_that_takes_its_time_makes_no_failure(by_a_command: Stage, tmp_path: Path) -> None:
    """Longer than a failure takes to be confirmed. Nor is the hypervisor, on which it shows life, powered off."""
    asked, check = tmp_path / "asked", tmp_path / "check"
    check.write_text(f"#!/bin/sh\necho >> {asked}\nsleep 0.7\n")
    check.chmod(0o755)
    with by_a_command.watching():
        wait_for(by_a_command.seen, "the first look")
        by_a_command.hosts["hv2"].answers = False
        wait_for(lambda: asked.exists() and len(asked.read_text()) > 3, "questions")
    assert by_a_command.recover.calls == []
    assert by_a_command.env.neighbours.answering("hv2") == ("mail (127.0.0.1 check)",)


def test_a_command_that_is_not_there_makes_no_failure(by_a_command: Stage, caplog: pytest.LogCaptureFixture) -> None:
    with by_a_command.watching():
        wait_for(by_a_command.seen, "the first look")
        by_a_command.hosts["hv2"].answers = False
        wait_for(lambda: any("check cannot be asked" in text for text in caplog.messages), "the error")
    assert by_a_command.recover.calls == []
    with pytest.raises(ExternalError, match="check is not installed"):
        by_a_command.env.neighbours.answering("hv2")


@pytest.mark.parametrize("where", ["usage", "subscribe", "read"])
def test_a_thread_that_breaks_leaves_nothing_unwatched(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    """As when this machine cannot start another thread for a moment."""
    host, vm = stage.hosts["hv2"], str(stage.env.plan.services["mail"].primary.uuid)
    works, broken = getattr(host, where), threading.Event()

    def once(*words: Any) -> Any:
        if not broken.is_set():
            broken.set()
            raise RuntimeError("can't start new thread")
        return works(*words)

    monkeypatch.setattr(host, where, once)
    with stage.watching():
        wait_for(stage.seen, "the first look")
        wait_for(lambda: host.tell is not nobody_listens, "the subscription")
        host.tell(DomainEvent(vm, stopped=False, reason=""))
        assert broken.wait(60)
        wait_for(lambda: any("can't start new thread" in text for text in caplog.messages), "the error")
        if where == "usage":
            host.reading = DomainReading(Power.SHUTOFF, "crashed")
        else:
            running = {vm: DomainUsage(DomainReading(Power.RUNNING), 1, 1)}
            monkeypatch.setattr(host, "usage", lambda _uuids: running)
            host.reading = DomainReading(Power.SHUTOFF, "crashed")
            host.tell(DomainEvent(vm, stopped=True, reason="crashed"))
        wait_for(lambda: stage.recover.calls, "the failover")
    assert set(stage.recover.calls) == {("mail", "libvirt: shutoff (crashed)", Symptom.ENDED)}


def test_one_that_was_refused_for_a_moments_silence_is_not_given_up(stage: Stage) -> None:
    """The watcher itself has heard nothing of that silence, which fell between two of its questions."""
    stage.recover.refusal = NotNowError
    with stage.watching():
        wait_for(stage.seen, "the first look")
        stage.hosts["hv2"].reading = DomainReading(Power.SHUTOFF, "crashed")
        wait_for(lambda: len(stage.recover.calls) >= 2, "the second try")
    assert set(stage.recover.calls) == {("mail", "libvirt: shutoff (crashed)", Symptom.ENDED)}


def test_a_hypervisor_that_answers_the_watcher_and_no_failover_is_not_asked_at_each_answer(stage: Stage) -> None:
    """Each try is a failover of its own in the journal, and a line in the log."""
    stage.recover.refusal = NotNowError
    with stage.watching():
        wait_for(stage.seen, "the first look")
        begun = time.monotonic()
        stage.hosts["hv2"].reading = DomainReading(Power.SHUTOFF, "crashed")
        wait_for(lambda: len(stage.recover.calls) >= 3, "the third try")
        calls, took = len(stage.recover.calls), time.monotonic() - begun
    # At 0, 1, 3, 7 seconds, and so on.
    assert took >= 2 ** (calls - 1) - 1


def test_one_that_was_refused_is_given_up(stage: Stage) -> None:
    with stage.watching():
        wait_for(stage.seen, "the first look")
        stage.hosts["hv2"].reading = DomainReading(Power.SHUTOFF, "crashed")
        wait_for(lambda: stage.recover.calls, "the first try")
        asked = stage.hosts["hv3"].asked
        wait_for(lambda: stage.hosts["hv3"].asked > asked + 40, "some rounds more")
    assert stage.recover.calls == [("mail", "libvirt: shutoff (crashed)", Symptom.ENDED)]


def test_a_silent_hypervisor_whose_vm_answers_has_not_failed(
    stage: Stage, door: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    door.listen(512)
    with stage.watching():
        wait_for(stage.seen, "the first look")
        stage.hosts["hv2"].answers = False
        wait_for(lambda: any("answers: no failure" in text for text in caplog.messages), "the verdict")
        stage.hosts["hv2"].answers = True
        wait_for(lambda: caplog.messages.count("mail: the primary is running") == 2, "its return")
    assert stage.recover.calls == []


def test_without_the_embedded_detector_only_open_failovers_are_finished(tmp_path: Path, door: socket.socket) -> None:
    stage = Stage(tmp_path, door.getsockname()[1], "false")
    journal = stage.env.journal
    for name in ("web", "mail"):
        journal.saw_running(name, 1.0)
    journal.begin(journal.open("web", "Zabbix event 5", Request(automatic=True, by="Zabbix"), 1.0), Step.CONFIRM, 1.0)
    for host in stage.hosts.values():
        host.answers = False
    with stage.watching():
        wait_for(lambda: stage.recover.calls, "the open failover")
    assert [service for service, _, _ in stage.recover.calls] == ["web"]
    assert all(host.asked == 0 for host in stage.hosts.values())


def test_without_the_embedded_detector_an_open_failover_is_gone_on_with_after_a_pause(
    tmp_path: Path, door: socket.socket
) -> None:
    stage = Stage(tmp_path, door.getsockname()[1], "false")
    journal = stage.env.journal
    for name in ("web", "mail"):
        journal.saw_running(name, 1.0)
        opened = journal.open(name, "Zabbix event 5", Request(automatic=True, by="Zabbix"), 1.0)
        journal.begin(opened, Step.CONFIRM, 1.0)
    journal.suspend("web", Suspension(0.0, None, "work"))
    with stage.watching():
        wait_for(lambda: stage.recover.calls, "the one that is not paused")
        assert [service for service, _, _ in stage.recover.calls] == ["mail"]
        journal.suspend("web", None)
        wait_for(lambda: len(stage.recover.calls) == 2, "the one that was paused")


def test_what_breaks_while_a_hypervisor_is_watched_is_told_once_and_leaves_no_subscription(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    host, ended = stage.hosts["hv2"], list[int]()
    begun = list[int]()

    def subscribe(*_words: object) -> Callable[[], None]:
        begun.append(1)
        return lambda: ended.append(1)

    def breaks() -> bool:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(host, "subscribe", subscribe)
    monkeypatch.setattr(host, "alive", breaks)
    monkeypatch.setattr(host_watch, "TICK", 0.01)
    monkeypatch.setattr(host_watch, "RECONNECT_DELAY", 0.01)
    with stage.watching():
        wait_for(lambda: len(begun) >= 4, "the fourth subscription")
        assert len(ended) >= 3
    assert len([text for text in caplog.messages if "can't start new thread" in text]) == 1


def test_what_breaks_while_a_hypervisor_is_silent_does_not_begin_its_silence_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host_watch, "ASK_EVERY", 0.01)
    monkeypatch.setattr(host_watch, "RECONNECT_DELAY", 0.01)
    host, inbox, stop = FakeHost(), queue.Queue[Message](), threading.Event()
    host.answers = False

    def breaks_once(uuids: Sequence[str]) -> dict[str, DomainUsage]:
        if host.asked == 3:
            host.asked += 1
            raise RuntimeError("can't start new thread")
        return FakeHost.usage(host, uuids)

    monkeypatch.setattr(host, "usage", breaks_once)
    monkeypatch.setattr(host, "subscribe", lambda *_words: lambda: None)
    monkeypatch.setattr(host, "alive", lambda: True)
    HostWatch("hv1", host, [], inbox).start(stop)  # type: ignore[arg-type]
    try:
        wait_for(lambda: host.asked >= 8, "some questions more")
    finally:
        stop.set()
    heard = [message for message in list(inbox.queue) if isinstance(message, NotHeard)]
    assert len(heard) >= 6
    assert len({message.since for message in heard}) == 1
