"""What an event of Zabbix means: which hypervisor is read, what counts beside Zabbix's word, what it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_zabbix_events import UUID, FakeEvent, FakeHost
from test_zabbix_events import Stage as EventStage

from lab.waiting import wait_for
from vcrecovery.core.domain import DomainReading
from vcrecovery.core.episode import Episode, Request, Symptom
from vcrecovery.core.power import Power
from vcrecovery.core.sighting import Sighting
from vcrecovery.detect import event_meaning
from vcrecovery.detect.answers import Answer
from vcrecovery.detect.event_meaning import EventMeaning
from vcrecovery.drivers.libvirt import Guest
from vcrecovery.errors import BusyError, ExternalError, NotNowError, RefusedError
from vcrecovery.plan.load import load_plan

NOW = 1200.0


class Host(FakeHost):
    """Counts questions for one VM. `has`: the number of the VM that it is found to have, if somebody looks there."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.has: int | None = None

    def read(self, uuid: str) -> DomainReading:
        self.asked += 1
        return super().read(uuid)

    def guests(self) -> list[Guest]:
        FakeHost.read(self, "")
        return [] if self.has is None else [Guest(UUID.format(self.has), "vm", 1)]


class Stage(EventStage):
    """It is `NOW`; nobody waits. `waited`: for how long they would have."""

    def __init__(self, folder: Path, **detection: object) -> None:
        super().__init__(folder)
        if detection:
            text = (folder / "plan.yml").read_text()
            words = ", ".join(f"{key}: {value}" for key, value in detection.items())
            (folder / "plan.yml").write_text(f"{text}detection: {{{words}}}\n")
            self.env.plan = load_plan(folder / "plan.yml")
        self.env.clock = self
        self.watched: dict[str, Host] = {name: Host() for name in self.hosts}
        self.hosts = dict(self.watched)
        self.env.hosts = dict(self.watched)  # type: ignore[arg-type]
        self.waited: list[float] = []

    def now(self) -> float:
        return NOW

    def steady(self) -> float:
        return NOW

    def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)

    def answer(self, at: float = 1000.0, **tags: str) -> Answer:
        named = {f"vcr-{key}": value for key, value in tags.items()}
        meaning = EventMeaning(self.env, self.recover, self.api.comment)
        return meaning.handle(FakeEvent("5", named, at=at))

    def silent(self, *hosts: str) -> None:
        for host in hosts:
            self.hosts[host].reading = DomainReading(Power.UNREACHABLE)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    made: list[Stage] = []

    def build(**detection: object) -> Stage:
        made.append(Stage(tmp_path, **detection))
        return made[-1]

    yield build
    for stage in made:
        stage.port.close()


@pytest.fixture
def stage(make: Callable[..., Stage]) -> Stage:
    return make()


SAID = "and no port of the primary answers"


# -- tags, which anybody may have written ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        ({"kind": "x" * 65}, f"the event's tag vcr-kind is '{'x' * 64}'"),
        ({"kind": "vm", "uuid": "X" * 65}, f"no service of the plan has a VM '{'x' * 64}'"),
        ({"kind": "host", "host": "x" * 65}, f"the plan has no service on hypervisor {'x' * 64}"),
        ({"kind": "site", "site": "x" * 65}, f"the plan has no service on site {'x' * 64}"),
    ],
)
def test_what_names_nothing_is_answered_for_good_and_in_short(stage: Stage, tags: dict[str, Any], said: str) -> None:
    assert stage.answer(**tags) == Answer(f"nothing done: {said}", final=True)


def test_a_uuid_may_stand_between_blanks_and_in_any_letters(stage: Stage) -> None:
    stage.say(Power.SHUTOFF, "crashed")
    assert "web: served by" in stage.answer(kind="vm", uuid=f" {UUID.format(1).upper()} ").text


def test_a_problem_that_is_over_calls_for_nothing_any_more(stage: Stage) -> None:
    stage.say(Power.SHUTOFF, "crashed")
    over = FakeEvent("5", {"vcr-kind": "vm", "vcr-uuid": UUID.format(1)}, is_problem=False)
    answer = EventMeaning(stage.env, stage.recover, stage.api.comment).handle(over)
    assert answer == Answer("nothing done: this problem is over", final=True, handled=True)
    assert stage.recover.calls == []


# -- hypervisors and sites -------------------------------------------------------------------------------------


def test_of_a_site_only_the_hypervisor_that_is_silent_has_failed(stage: Stage) -> None:
    stage.silent("hv1")
    answer = stage.answer(kind="site", site="east")
    assert sorted(stage.recover.calls) == [("mail", Symptom.HOST), ("web", Symptom.HOST)]
    assert "site east: 2 of 3 services are served by their standbys" in answer.text
    assert "shop: the primary is running" in answer.text
    site = "site east has failed: hv1 and hv2 do not answer"
    assert set(stage.recover.causes) == {f"Zabbix event 5 (VM crashed): {site}, {SAID}"}


def test_a_hypervisor_of_the_site_that_has_no_service_is_not_asked(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage.env.whereabouts, "homes", lambda: dict.fromkeys(("web", "mail", "shop"), "hv1"))
    stage.silent("hv1", "hv2")
    assert "3 of 3 services" in stage.answer(kind="site", site="east").text
    assert stage.watched["hv2"].asked == 0


def test_each_silent_hypervisor_is_asked_once(stage: Stage) -> None:
    """Each question takes its whole time, and the failovers wait for it."""
    stage.silent("hv1", "hv2")
    assert "3 of 3 services" in stage.answer(kind="site", site="east").text
    assert {name: host.asked for name, host in stage.watched.items()} == {"hv1": 1, "hv2": 1}


def test_each_event_of_a_hypervisor_and_each_obstacle_is_logged(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stage.silent("hv2")
    state, tries = stage.env.journal.state, list[int]()

    def once(service: str) -> Any:
        tries.append(1)
        if len(tries) == 1:
            raise ExternalError("the journal cannot be used: database is locked")
        return state(service)

    monkeypatch.setattr(stage.env.whereabouts, "homes", lambda: {"web": "hv1", "mail": "hv1", "shop": "hv2"})
    monkeypatch.setattr(stage.env.journal, "state", once)
    stage.answer(kind="host", host="hv2")
    assert caplog.messages == [
        "hypervisor hv2 does not answer (event 5)",
        "shop: the journal cannot be used: database is locked; trying again",
    ]


def test_a_service_that_was_moved_off_a_silent_hypervisor_is_looked_at_where_it_is(stage: Stage) -> None:
    """The question was put for web, and that one is elsewhere: of mail it says nothing."""
    stage.env.journal.saw({"mail": (Sighting(Power.RUNNING, "", 900.0, 900.0, "hv1"), None)})
    stage.silent("hv1")
    stage.watched["hv2"].has = 1
    answer = stage.answer(kind="host", host="hv1")
    assert stage.recover.calls == [("mail", Symptom.HOST)]
    assert "web: the primary is running" in answer.text
    assert stage.recover.causes == [f"Zabbix event 5 (VM crashed): hypervisor hv1 does not answer, {SAID}"]


def test_what_breaks_for_one_service_leaves_the_others_their_answer(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.silent("hv1")
    answering = stage.env.journal.state

    def breaks(service: str) -> Any:
        if service == "web":
            raise ValueError("a bug")
        return answering(service)

    monkeypatch.setattr(stage.env.journal, "state", breaks)
    answer = stage.answer(kind="host", host="hv1")
    assert stage.recover.calls == [("mail", Symptom.HOST)]
    assert "web: internal error: ValueError: a bug" in answer.text


def test_between_two_tries_the_journal_gets_more_and_more_time(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.silent("hv2")
    state, tries = stage.env.journal.state, list[int]()

    def locked(service: str) -> Any:
        tries.append(1)
        if len(tries) <= 3:
            raise ExternalError("the journal cannot be used: database is locked")
        return state(service)

    monkeypatch.setattr(stage.env.whereabouts, "homes", lambda: {"web": "hv1", "mail": "hv1", "shop": "hv2"})
    monkeypatch.setattr(stage.env.journal, "state", locked)
    assert "shop: served by its standby" in stage.answer(kind="host", host="hv2").text
    assert stage.waited == [1.0, 2.0, 4.0]


# -- one VM ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("cpu-zero", "has used no CPU for 40 s"),
        ("cpu-high", "has used 90 % or more of its CPUs for 50 s"),
    ],
)
def test_what_zabbix_saw_is_said_with_the_plans_thresholds(make: Callable[..., Stage], kind: str, said: str) -> None:
    stage = make(cpu_zero_for="40s", cpu_high=90, cpu_high_for="50s")
    stage.port.listen()
    assert f"web: the primary {said}, but 127.0.0.1:" in stage.answer(kind=kind, uuid=UUID.format(1)).text
    assert stage.recover.calls == []


def test_one_that_never_ran_as_far_as_is_known_ran_when_its_problem_began(stage: Stage) -> None:
    stage.say(Power.SHUTOFF, "crashed")
    stage.answer(at=1111.0, kind="vm", uuid=UUID.format(1))
    assert stage.env.journal.state("web").seen_running_at == 1111.0
    stage.answer(at=1150.0, kind="vm", uuid=UUID.format(1))
    assert stage.env.journal.state("web").seen_running_at == 1111.0


def test_what_is_known_of_its_runs_is_not_written_over(stage: Stage) -> None:
    stage.env.journal.saw_running("web", 900.0)
    stage.answer(kind="vm", uuid=UUID.format(1))
    assert stage.env.journal.state("web").seen_running_at == 900.0


@pytest.mark.parametrize(("embedded", "failed"), [("true", False), ("false", True)])
def test_what_was_seen_long_ago_counts_only_where_somebody_goes_on_looking(
    make: Callable[..., Stage], embedded: str, failed: bool
) -> None:
    """It was shut down once. Without a watcher it may have been started since, which only Zabbix has seen."""
    stage = make(embedded=embedded)
    stage.env.journal.saw({"web": (Sighting(Power.SHUTOFF, "shutdown", 500.0, 900.0, "hv1"), None)})
    stage.say(Power.SHUTOFF)
    stage.answer(kind="vm", uuid=UUID.format(1))
    assert stage.recover.calls == ([("web", Symptom.LOST)] if failed else [])


@pytest.mark.parametrize("embedded", ["true", "false"])
def test_where_it_was_moved_is_written_down_by_whoever_looks(make: Callable[..., Stage], embedded: str) -> None:
    stage = make(embedded=embedded)
    stage.hosts["hv1"].reading = DomainReading(Power.ABSENT)
    stage.watched["hv2"].has = 1
    stage.answer(kind="vm", uuid=UUID.format(1))
    # With its own watcher, that is the one to write it down.
    assert (stage.env.journal.state("web").seen is None) is (embedded == "true")
    assert stage.env.whereabouts.home("web") == ("hv1" if embedded == "true" else "hv2")


def test_where_it_has_always_been_there_is_nothing_to_write_down(make: Callable[..., Stage]) -> None:
    stage = make(embedded="false")
    stage.answer(kind="vm", uuid=UUID.format(1))
    assert stage.env.journal.state("web").seen is None


@pytest.mark.parametrize(("autostart_within", "is_started"), [("201s", True), ("200s", False)])
def test_one_that_its_hypervisor_starts_gets_the_time_for_that(
    make: Callable[..., Stage], autostart_within: str, is_started: bool
) -> None:
    stage = make(autostart_within=autostart_within)
    for host in stage.hosts.values():
        host.reading = DomainReading(Power.SHUTOFF, "", "", "autostart")
    answer = stage.answer(kind="vm", uuid=UUID.format(1))
    assert ("its hypervisor is back and starts it (autostart)" in answer.text) is is_started
    assert (stage.recover.calls == []) is is_started
    assert answer.final is not is_started


def test_the_time_for_that_begins_with_the_problem(stage: Stage) -> None:
    for host in stage.hosts.values():
        host.reading = DomainReading(Power.SHUTOFF, "", "", "autostart")
    assert "starts it (autostart)" in stage.answer(at=NOW, kind="vm", uuid=UUID.format(1)).text


def test_one_whose_problem_begins_in_the_future_is_not_waited_for(stage: Stage) -> None:
    """Zabbix's clock and this one differ: how long it has lasted, nobody knows."""
    for host in stage.hosts.values():
        host.reading = DomainReading(Power.SHUTOFF, "", "", "autostart")
    stage.answer(at=NOW + 5, kind="vm", uuid=UUID.format(1))
    assert stage.recover.calls == [("web", Symptom.LOST)]


@pytest.mark.parametrize(("stalled_for", "failed"), [("200s", True), ("201s", False)])
def test_one_that_a_fault_has_paused_gets_the_plans_time(
    make: Callable[..., Stage], stalled_for: str, failed: bool
) -> None:
    stage = make(stalled_for=stalled_for)
    stage.say(Power.PAUSED, "I/O error")
    stage.answer(kind="vm", uuid=UUID.format(1))
    assert stage.recover.calls == ([("web", Symptom.STALLED)] if failed else [])


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("cpu-zero", "no hypervisor of the plan knows the VM any more, but 127.0.0.1:"),
        ("cpu-high", "no hypervisor of the plan knows the VM any more, but 127.0.0.1:"),
        # That it ran when the hypervisor failed, Zabbix does not say.
        ("host", "web: its hypervisor does not know the VM: check the plan"),
    ],
)
def test_one_that_is_gone_has_crashed_only_where_zabbix_says_so_of_the_vm(stage: Stage, kind: str, said: str) -> None:
    """A transient VM may have been shut down: what ended it, nobody has heard."""
    stage.say(Power.ABSENT)
    stage.port.listen()
    assert said in stage.answer(kind=kind, uuid=UUID.format(1), host="hv1").text
    assert stage.recover.calls == []


# -- the failover ----------------------------------------------------------------------------------------------


def test_another_controller_is_waited_for(stage: Stage) -> None:
    stage.say(Power.SHUTOFF, "crashed")
    recover, tries = stage.recover, list[int]()

    def busy_twice(*words: Any, **more: Any) -> Episode:
        tries.append(1)
        if len(tries) <= 2:
            raise BusyError("another controller is at work on web")
        return recover(*words, **more)

    stage.recover = busy_twice  # type: ignore[assignment]
    assert "web: served by its standby" in stage.answer(kind="vm", uuid=UUID.format(1)).text
    assert stage.waited == [event_meaning.BUSY_DELAY] * 2


@pytest.mark.parametrize(("error", "final"), [(RefusedError, True), (NotNowError, False)])
def test_a_refusal_that_may_be_over_in_a_moment_is_not_the_last_word(
    stage: Stage, error: type[RefusedError], final: bool
) -> None:
    stage.say(Power.SHUTOFF, "crashed")

    def refuses(*_words: Any, **_more: Any) -> Episode:
        raise error("web cannot be fenced", "mend that")

    stage.recover = refuses  # type: ignore[assignment]
    answer = stage.answer(kind="vm", uuid=UUID.format(1))
    assert answer == Answer("no failover: web cannot be fenced; mend that\nnext: `vcrecovery explain web`", final)


@pytest.mark.parametrize(("power", "reason", "final"), [(Power.SHUTOFF, "destroyed", True), (Power.RUNNING, "", False)])
def test_what_was_asked_for_stays_no_failure(stage: Stage, power: Power, reason: str, final: bool) -> None:
    stage.say(power, reason)
    assert stage.answer(kind="vm", uuid=UUID.format(1)).final is final


def test_a_vm_that_was_shut_down_stays_so_though_a_failover_of_it_was_begun_before(stage: Stage) -> None:
    """Its operator has ended it since: nothing was done yet that must be brought to an end."""
    stage.env.journal.saw_running("web", 900.0)
    stage.env.journal.open("web", "hypervisor hv1 does not answer", Request(automatic=True), 950.0)
    stage.say(Power.SHUTOFF, "destroyed")
    assert "requested shutdown, no failure" in stage.answer(kind="vm", uuid=UUID.format(1)).text
    assert stage.recover.calls == []


def test_zabbix_hears_of_each_obstacle_once(stage: Stage) -> None:
    stage.say(Power.SHUTOFF, "crashed")
    recover = stage.recover

    def troubled(service: str, *words: Any, **more: Any) -> Episode:
        for number, text in enumerate(("LXD does not answer", "nor does the BMC")):
            for _ in range(3):
                more["on_trouble"](ExternalError(text))
            wait_for(lambda number=number: len(stage.api.told) > number, "what Zabbix is told")  # type: ignore[misc]
        return recover(service, *words, **more)

    stage.recover = troubled  # type: ignore[assignment]
    stage.answer(kind="vm", uuid=UUID.format(1))
    assert stage.api.told == [
        ("5", "web: not done yet, trying again: LXD does not answer"),
        ("5", "web: not done yet, trying again: nor does the BMC"),
    ]


def test_trouble_that_zabbix_cannot_be_told_stops_nothing(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stage.say(Power.SHUTOFF, "crashed")
    recover, stage.api.down = stage.recover, True

    def troubled(service: str, *words: Any, **more: Any) -> Episode:
        more["on_trouble"](ExternalError("LXD does not answer"))
        wait_for(lambda: "event 5: Zabbix's API does not answer" in caplog.messages, "the warning")
        return recover(service, *words, **more)

    stage.recover = troubled  # type: ignore[assignment]
    assert "web: served by its standby" in stage.answer(kind="vm", uuid=UUID.format(1)).text


def test_a_failover_of_the_watcher_is_told_as_it_was(stage: Stage) -> None:
    stage.say(Power.SHUTOFF, "crashed")
    first = stage.answer(kind="vm", uuid=UUID.format(1))
    again = stage.answer(kind="host", host="hv1")
    assert "web: served by its standby after 2.0 s, epoch 1" in first.text
    assert "web: served by its standby after 2.0 s, epoch 1" in again.text
    assert replace(stage.env.journal.history("web", 1)[0].request, symptom=Symptom.NONE) == Request(
        automatic=True, by="Zabbix"
    )
