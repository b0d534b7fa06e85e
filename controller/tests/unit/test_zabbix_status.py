"""Who serves, and how protected each service is, as Zabbix and Prometheus are told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from view_cases import CRASHED, DONE, NOW, OPEN, PLAN, STOPPED, standby, view

from lab.waiting import wait_for
from relay_bench.recorder import Recorder
from vcrecovery.core.domain import DomainReading
from vcrecovery.core.drill import Drill, DrillOutcome, DrillsOf
from vcrecovery.core.power import Power
from vcrecovery.core.service_state import ServiceState, Serving, Side, Suspension
from vcrecovery.drivers.clock import SystemClock
from vcrecovery.errors import ExternalError
from vcrecovery.plan.monitoring import Zabbix
from vcrecovery.report import zabbix_status
from vcrecovery.report.findings import Finding, Level
from vcrecovery.report.protection import Protection, protection
from vcrecovery.report.view import ServiceView, SpareView
from vcrecovery.report.zabbix_status import ZabbixServing, ZabbixStatus
from vcrecovery.report.zabbix_values import of_all, of_service
from vcrecovery_lab.ports import free_port

HOST = "vcrecovery-services"


def by_standby(**changes: Any) -> ServiceView:
    state = ServiceState("web", epoch=3, side=Side.STANDBY, seen_running_at=NOW - 9999)
    return view(
        "web", CRASHED, state=state, done=DONE, last=DONE, standby=standby(state="running"), names=(), **changes
    )


def spare(copied_at: float | None, *, whole: bool = True) -> SpareView:
    return SpareView("sec2", "stopped", 60.0, copied_at, whole)


COOLS = ServiceState("web", epoch=3, seen_running_at=NOW - 9999, failed_over_at=NOW - 60)
SUSPENDED = ServiceState("web", seen_running_at=NOW - 9999, suspension=Suspension(NOW - 60, None, "kernel update"))


@pytest.mark.parametrize(("suspension", "told"), [(None, 1), (Suspension(NOW - 60, None, "rebuilt"), 0)])
def test_an_old_primary_that_the_operator_has_run_is_no_problem(suspension: Suspension | None, told: int) -> None:
    state = ServiceState("web", epoch=3, side=Side.STANDBY, seen_running_at=NOW - 9999, suspension=suspension)
    assert json.loads(of_service(view(state=state, standby=standby(state="running"))))["old_primary"] == told


@pytest.mark.parametrize(
    ("seen", "level", "why"),
    [
        (view(), Protection.PROTECTED, ""),
        (view(standby=standby(None)), Protection.UNPROTECTED, "the age of its standby is not known"),
        (view(standby=standby(500.0)), Protection.UNPROTECTED, "its standby is 8 min"),
        (view(standby=standby(state="unreachable", detail="LXD is silent")), Protection.UNPROTECTED, "LXD is silent"),
        (
            view(standby=standby(5.0, detail="a file was refused")),
            Protection.DEGRADED,
            "the standby may lack something",
        ),
        (view(state=SUSPENDED), Protection.DEGRADED, "automatic failover is suspended: kernel update"),
        (
            view(reading=DomainReading(Power.ABSENT, "migrated")),
            Protection.UNPROTECTED,
            "no hypervisor of the plan has it",
        ),
        (
            view(plan=replace(PLAN, cool_down=3600.0), state=COOLS),
            Protection.DEGRADED,
            "no automatic failover until",
        ),
        (by_standby(), Protection.UNPROTECTED, "nothing stands in for its standby"),
        (by_standby(spare=spare(NOW - 30)), Protection.DEGRADED, "its standby serves; its copy on sec2 is 30 s old"),
        (by_standby(spare=spare(NOW - 9000)), Protection.UNPROTECTED, "its copy on sec2: 2 h"),
        (by_standby(spare=spare(None, whole=False)), Protection.UNPROTECTED, "not whole yet"),
        (
            view("web", CRASHED, state=ServiceState("web", epoch=3, seen_running_at=1.0, open_episode=OPEN)),
            Protection.UNPROTECTED,
            "a failover is not finished",
        ),
    ],
)
def test_whether_something_would_take_over(seen: ServiceView, level: Protection, why: str) -> None:
    found = protection(seen)
    assert found.level is level
    assert why in found.why
    assert bool(found.why) == (level is not Protection.PROTECTED)


def document(seen: ServiceView) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(of_service(seen))
    return found


def test_an_age_that_is_not_known_is_neither_0_nor_that_of_before() -> None:
    assert document(view())["age"] == 5.0
    assert document(view(standby=standby(None)))["age"] == -1
    assert document(by_standby())["age"] == -2


def test_what_is_wrong_comes_with_what_to_type() -> None:
    assert document(view())["wrong"] == ""
    found = document(by_standby())
    assert "`vcrecovery failback web` returns to it" in found["wrong"]
    assert found["failover"] == "failover of 2026-11-22 03:12:04, done in 4.7 s: libvirt: shutoff (crashed)"
    stopped = ServiceState("web", epoch=3, seen_running_at=1.0, open_episode=STOPPED)
    found = document(view("web", CRASHED, state=stopped))
    assert found["operation"].startswith(
        "failover, epoch 3, since 2026-11-22 03:12:04, at probe: the standby of web does"
    )
    assert found["attention"] >= 1


def test_drills_are_told() -> None:
    failed = Drill(3, "web", NOW - 90, "a timer", NOW - 60, DrillOutcome.FAILED, "no port opened")
    assert document(view(drills=DrillsOf(None, failed)))["drill"] == 1
    overdue = replace(PLAN, drill_every=86400.0)
    assert document(view(plan=overdue))["drill"] == 2
    assert document(view())["drill"] == 0


def test_the_page_of_all_says_the_worst_first_and_stays_short() -> None:
    views = [view(f"s{number:03}") for number in range(200)]
    views[150] = replace(by_standby(), name="s150")
    more = [Finding(Level.WARNING, "sec2", "drained since 02:10 by ann", "`vcrecovery undrain sec2`")]
    found = json.loads(of_all(views, more))
    assert (found["services"], found["unprotected"], found["by_standby"], found["attention"]) == (200, 1, 1, 0)
    lines = found["overview"].splitlines()
    assert lines[0] == "200 services; unprotected: 1, degraded: 0, protected: 199"
    assert lines[1] == "warning: sec2: drained since 02:10 by ann; `vcrecovery undrain sec2`"
    assert lines[2].startswith("s150: its standby serves, answers; unprotected (nothing stands in")
    assert len(lines) == 60
    assert "`vcrecovery status`" in lines[-1]
    assert found["wrong"] == "sec2: drained since 02:10 by ann; `vcrecovery undrain sec2`"


def test_text_of_a_vm_breaks_no_line() -> None:
    detail = "x\n\x1b[31m" + "y" * 10_000
    text = of_service(view(standby=standby(None, detail=detail)))
    assert len(text) < 4000
    assert "\\u001b" not in text
    assert len(json.loads(of_all([view(standby=standby(None, detail=detail))]))["overview"].splitlines()) < 5


@dataclass
class Told:
    """All that plays a part."""

    recorder: Recorder
    serving: dict[str, Serving] = field(default_factory=dict)
    views: list[ServiceView] = field(default_factory=lambda: [view("web"), view("mail")])
    looks: int = 0
    broken: bool = False
    #: What is looked at answers.
    answers: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.answers.set()

    def who_serves(self) -> dict[str, Serving]:
        if self.broken:
            raise ExternalError("the journal cannot be used")
        return self.serving

    def look(self) -> Sequence[ServiceView]:
        self.looks += 1
        self.answers.wait(60)
        return self.views

    def texts(self, key: str) -> list[str]:
        return [value.text for value in self.recorder.values(HOST, key)]

    def ends_with(self, key: str, text: str) -> None:
        wait_for(lambda: self.texts(key)[-1:] == [text], f"{key}: {text}, after {self.texts(key)}", 30)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    monkeypatch.setattr(zabbix_status, "LOOK_EVERY", 0.01)
    monkeypatch.setattr(zabbix_status, "TIMEOUT", 0.3)
    monkeypatch.setattr(zabbix_status, "ALL_AGAIN_AFTER", 0.05)
    made = Told(Recorder("127.0.0.1", free_port()))
    made.recorder.start()
    plan = Zabbix.model_validate({"trapper": {"address": made.recorder.address, "port": made.recorder.port}})
    stop = threading.Event()
    status = ZabbixStatus(plan, SystemClock(), made.look, list)
    serving = ZabbixServing(plan, ["web", "mail"], SystemClock(), made.who_serves, status.soon)
    threads = [threading.Thread(target=run, args=(stop,)) for run in (status.run, serving.run)]
    for thread in threads:
        thread.start()
    try:
        yield made
    finally:
        stop.set()
        made.answers.set()
        for thread in threads:
            thread.join(30)
        made.recorder.stop()
        assert not any(thread.is_alive() for thread in threads)


def test_who_serves_is_told_while_what_is_looked_at_does_not_answer(told: Told) -> None:
    told.ends_with("vcr.serves[web]", "0")
    wait_for(lambda: told.texts("vcr.controller"), "the controller's status", 30)
    told.answers.clear()
    seen = told.looks
    told.serving["web"] = Serving(Side.PRIMARY, 3, at_work=True)
    told.ends_with("vcr.serves[web]", "2")
    wait_for(lambda: told.looks > seen, "the look that hangs", 30)
    known = len(told.texts("vcr.controller"))
    told.serving["web"] = Serving(Side.STANDBY, 3)
    told.ends_with("vcr.serves[web]", "1")
    assert told.texts("vcr.serves[mail]")[-1] == "0"
    assert len(told.texts("vcr.controller")) == known
    told.answers.set()
    # What has changed meanwhile is looked at once more.
    wait_for(lambda: len(told.texts("vcr.controller")) >= known + 2, "both looks", 30)


def test_many_changes_are_few_looks(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zabbix_status, "ALL_AGAIN_AFTER", 3600.0)
    told.ends_with("vcr.serves[web]", "0")
    wait_for(lambda: told.looks >= 1, "the first look", 30)
    for epoch in range(30):
        told.serving["web"] = Serving((Side.STANDBY, Side.PRIMARY)[epoch % 2], epoch)
        told.ends_with("vcr.serves[web]", str(1 - epoch % 2))
    assert told.looks <= 2


def test_a_template_that_comes_later_gets_the_list_again(told: Told) -> None:
    told.recorder.refuses = lambda _host, key: key.startswith("vcr.serves")
    told.serving["web"] = Serving(Side.STANDBY, 3)
    wait_for(lambda: told.texts("vcr.services"), "the list", 30)
    assert json.loads(told.texts("vcr.services")[0]) == [{"{#SERVICE}": "web"}, {"{#SERVICE}": "mail"}]
    assert told.looks <= 3
    told.recorder.refuses = lambda _host, _key: False
    told.ends_with("vcr.serves[web]", "1")


def test_a_zabbix_that_was_away_is_told_what_is(told: Told) -> None:
    told.ends_with("vcr.serves[web]", "0")
    told.recorder.stop()
    told.serving["web"] = Serving(Side.STANDBY, 3)
    seen = told.looks
    told.recorder.start()
    told.ends_with("vcr.serves[web]", "1")
    wait_for(lambda: told.looks > seen, "a look", 30)


def test_a_journal_that_cannot_be_read_for_a_while_ends_nothing(told: Told, caplog: pytest.LogCaptureFixture) -> None:
    told.ends_with("vcr.serves[web]", "0")
    told.broken = True
    wait_for(lambda: "the journal cannot be used" in caplog.text, "the line", 30)
    told.serving["web"] = Serving(Side.STANDBY, 3)
    told.broken = False
    told.ends_with("vcr.serves[web]", "1")
