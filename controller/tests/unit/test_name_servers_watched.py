"""Whether DNS could follow is seen before it has to: `status` asks every name server, and the watcher tries the key."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dns.message
import dns.rcode
import pytest
from name_server import KEY, SECRET, ZONE, Records, server
from set_clock import SetClock
from view_cases import DONE, NOW, OPEN, view
from view_program import only
from warm_program import vcrecovery

from lab.waiting import wait_for
from simulated.looking import seen
from simulated.site import Site
from vcrecovery.core.notice import Topic
from vcrecovery.core.service_state import ServiceState, Side
from vcrecovery.detect import zone_watch
from vcrecovery.detect.zone_watch import AGAIN_AFTER, EVERY, FIRST_AFTER, ZoneWatch, keep_trying_zones
from vcrecovery.drivers.dns import Server
from vcrecovery.operations.environment import Environment
from vcrecovery.plan.load import load_plan
from vcrecovery.report.findings import Level, findings
from vcrecovery.report.protection import Protection, protection
from vcrecovery.report.view import ServerView, ServiceView
from vcrecovery.store.zone_book import NOT_TRIED, VALID_FOR, Tried

WWW, MARKER = "www.example.test", "_vcrecovery.www.example.test"
PRIMARY, STANDBY = "127.0.1.10", "127.0.0.10"


def soa(serial: int) -> str:
    return f"ns1.example.test. root.example.test. {serial} 3600 600 86400 60"


@dataclass
class Servers:
    """ns1 and ns2 of the plan. `hold_up` is waited for by ns2 before it answers."""

    plan: Path
    ns1: Records
    ns2: Records
    second: Server
    hold_up: threading.Event

    def status(self, *words: str) -> dict[str, Any]:
        return only(vcrecovery("status", "web", "--json", *words, "--plan", self.plan).stdout)

    def said(self, *words: str) -> dict[str, str]:
        """What `status` finds of DNS, and the level of each."""
        found = self.status(*words)["findings"]
        return {one["sentence"]: one["level"] for one in found if WWW in one["sentence"]}


@pytest.fixture
def servers(local_plan: Path) -> Iterator[Servers]:
    ns1, ns2, goes_on = Records(), Records(), threading.Event()
    goes_on.set()
    for records in (ns1, ns2):
        records.write(WWW, "A", PRIMARY)
        records.write(ZONE, "SOA", soa(7))

    def answer(query: bytes) -> bytes:
        assert goes_on.wait(60)
        return ns2(query)

    with ExitStack() as until:
        first, second = until.enter_context(server(ns1)), until.enter_context(server(answer, "ns2"))
        until.callback(goes_on.set)
        text = local_plan.read_text().replace(
            "port: 9}", f"port: {first.port}}}\n    ns2: {{address: 127.0.0.1, port: 9}}"
        )
        text = text.replace("port: 9}", f"port: {second.port}}}").replace("servers: [ns1]", "servers: [ns1, ns2]")
        local_plan.write_text(text.replace("name: vcr.key", f"name: {KEY}"))
        (local_plan.parent / "secret").write_text(SECRET)
        (local_plan.parent / "state").mkdir()
        yield Servers(local_plan, ns1, ns2, second, goes_on)


# -- what `status` asks ----------------------------------------------------------------------------------------


def test_name_servers_that_agree_are_no_finding(servers: Servers) -> None:
    assert servers.said() == {}
    assert servers.status()["dns"] == {WWW: [PRIMARY]}
    assert servers.status()["dns_others"] == {WWW: {str(servers.second): [PRIMARY]}}


@pytest.mark.parametrize(("held", "shown"), [((STANDBY,), STANDBY), ((), "nothing")])
def test_a_second_name_server_with_another_address(servers: Servers, held: tuple[str, ...], shown: str) -> None:
    servers.ns2.write(WWW, "A", *held)
    said = f"{WWW} points at {shown} on DNS server {servers.second}, and the primary at {PRIMARY} serves"
    assert servers.said() == {said: "attention"}
    text = vcrecovery("status", "web", "--plan", servers.plan).stdout
    assert f"{WWW} -> {PRIMARY} ({servers.second}: {shown})" in text


def test_a_second_name_server_whose_zone_has_expired(servers: Servers) -> None:
    servers.ns2.rcode = dns.rcode.SERVFAIL
    assert servers.said() == {f"{WWW}: DNS server {servers.second} answers SERVFAIL for {WWW}": "warning"}
    checked = vcrecovery("status", "--check", "--plan", servers.plan).stdout
    assert f"warning: web: {WWW}: DNS server {servers.second} answers SERVFAIL" in checked


def test_a_second_name_server_that_hangs_delays_no_more_than_itself(servers: Servers) -> None:
    servers.hold_up.clear()
    begun = time.monotonic()
    found = servers.status("--within", "1")
    assert time.monotonic() - begun < 20
    assert found["dns"] == {WWW: [PRIMARY]}
    assert [
        one["level"] for one in found["findings"] if f"DNS server {servers.second} did not answer" in one["sentence"]
    ]


def test_each_name_server_is_asked_once_for_each_record(servers: Servers) -> None:
    """With thousands of names, every question counts."""
    asked: list[tuple[str, str]] = []

    def of(who: str) -> Callable[[dns.message.Message], None]:
        return lambda query: asked.append((who, str(query.question[0].name)))

    servers.ns1.asked, servers.ns2.asked = of("ns1"), of("ns2")
    servers.status()
    assert sorted(asked) == [("ns1", f"{WWW}."), ("ns2", f"{WWW}.")]


# -- what that means -------------------------------------------------------------------------------------------


def test_a_service_whose_second_name_server_is_away_is_not_fully_protected(memory_path: Path) -> None:
    site = Site(memory_path, services={"web": {"ns2": ""}})
    site.watch(3)
    assert protection(seen(site)).level is Protection.PROTECTED
    site.change(["web"], {"ns2": f"answers SERVFAIL for {WWW}"})
    degraded = protection(seen(site))
    assert degraded.level is Protection.DEGRADED
    assert "ns2 (127.0.0.2:53) answers SERVFAIL" in degraded.why


def with_others(*values: tuple[str, ...] | None, tried: Tried = NOT_TRIED, **changes: Any) -> ServiceView:
    """The first name server is well."""
    seen = view(**changes)
    others = tuple(ServerView(f"ns{number}", one, "ns2 is silent") for number, one in enumerate(values, 2))
    return replace(seen, names=(replace(seen.names[0], others=others, tried=tried),))


def dns_findings(seen: ServiceView) -> list[tuple[Level, Topic | None]]:
    return [(one.level, one.topic) for one in findings(seen) if "www." in one.sentence]


SERVED = ServiceState("web", side=Side.STANDBY, epoch=3)


def test_who_asks_an_old_name_server_has_no_service() -> None:
    wrong = with_others(("10.20.0.10",))
    assert dns_findings(wrong) == [(Level.ATTENTION, Topic.UNPROTECTED)]
    assert protection(wrong).level is Protection.UNPROTECTED
    # They keep going to the dead VM.
    assert dns_findings(with_others(("10.10.0.10",), state=SERVED)) == [(Level.ATTENTION, Topic.DOWN)]


def test_a_name_server_that_is_away_is_for_the_morning() -> None:
    assert dns_findings(with_others(("10.10.0.10",), None)) == [(Level.WARNING, Topic.UNPROTECTED)]
    assert protection(with_others(None)).level is Protection.DEGRADED


def test_a_name_server_may_be_as_late_as_a_failover_waits_for_it() -> None:
    late = (("10.10.0.10",),)
    assert dns_findings(with_others(*late, state=replace(SERVED, open_episode=OPEN))) == []
    just_now = replace(DONE, closed_at=NOW - 9)
    assert dns_findings(with_others(*late, state=SERVED, last=just_now)) == []
    before = replace(DONE, closed_at=NOW - 11)
    assert dns_findings(with_others(*late, state=SERVED, last=before)) == [(Level.ATTENTION, Topic.DOWN)]


# -- what the watcher tries ------------------------------------------------------------------------------------


class Stop:
    """Waits by the clock; ends once `waits` are over."""

    def __init__(self, clock: SetClock, waits: int = 99) -> None:
        self.waited: list[float] = []
        self._clock, self._waits = clock, waits

    def is_set(self) -> bool:
        return len(self.waited) >= self._waits

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.waited.append(timeout)
        self._clock.time += timeout
        return self.is_set()

    def set(self) -> None: ...

    def clear(self) -> None: ...


def tried(servers: Servers, stop: Stop | None = None) -> bool:
    clock = SetClock(time.time())
    return ZoneWatch(Environment(load_plan(servers.plan), clock)).turn(stop or Stop(clock))


def test_all_is_well_and_nothing_is_changed(servers: Servers) -> None:
    before = servers.ns1.snapshot()
    assert tried(servers)
    assert servers.ns1.snapshot() == before
    assert servers.said() == {}


def test_a_key_that_the_server_takes_no_more(servers: Servers) -> None:
    (servers.plan.parent / "secret").write_text(SECRET.lower())
    assert servers.said() == {}
    assert not tried(servers)
    ((sentence, level),) = servers.said().items()
    assert level == "attention"
    assert sentence.startswith(f"{WWW} could not be changed when last tried, ")
    assert "rejects TSIG key key" in sentence
    assert "make" in vcrecovery("status", "--check", "--plan", servers.plan).stdout
    (servers.plan.parent / "secret").write_text(SECRET)
    assert tried(servers)
    assert servers.said() == {}


def test_a_name_that_the_key_may_change_no_more(servers: Servers) -> None:
    """The others may be."""
    text = servers.plan.read_text()
    more = "\n      - {name: shop.example.test, zone: example.test}"
    line = "      - {name: www.example.test, zone: example.test}"
    servers.plan.write_text(text.replace(line, line + more))
    servers.ns1.granted = {(MARKER, "TXT"), (WWW, "A")}
    assert not tried(servers)
    found = [one["sentence"] for one in servers.status()["findings"] if "could not be changed" in one["sentence"]]
    assert [one.split()[0] for one in found] == ["shop.example.test"]


def test_a_server_that_restarts_is_no_trouble(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SetClock(time.time())
    servers.ns1.update_rcode = dns.rcode.SERVFAIL

    class Restarts(Stop):
        def wait(self, timeout: float | None = None) -> bool:
            servers.ns1.update_rcode = None
            return super().wait(timeout)

    assert tried(servers, Restarts(clock))


def test_a_server_that_hangs_is_not_waited_for_with_each_name(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = servers.plan.read_text()
    line = "      - {name: www.example.test, zone: example.test}\n"
    names = "".join(line.replace("www.", f"www{number}.") for number in range(30))
    servers.plan.write_text(text.replace(line, line + names))
    monkeypatch.setattr("vcrecovery.drivers.dns.QUERY_TIMEOUT", 0.3)
    monkeypatch.setattr("vcrecovery.operations.records.SLOW", 0.2)
    updates: list[str] = []

    def hang(query: dns.message.Message) -> None:
        updates.append(str(query.question[0].name))
        time.sleep(0.6)

    servers.ns1.asked = hang
    clock = SetClock(time.time())

    class Steady(SetClock):
        def steady(self) -> float:
            return time.monotonic()

    zones = ZoneWatch(Environment(load_plan(servers.plan), Steady(clock.time)))
    assert not zones.turn(Stop(clock))
    # Twice for the key, and for the serial.
    assert len(updates) <= 4
    servers.ns1.asked = lambda _query: None
    found = [one for one in servers.status()["findings"] if "could not be changed" in one["sentence"]]
    assert len(found) == 31


def test_a_transfer_that_is_broken(servers: Servers) -> None:
    servers.ns1.write(ZONE, "SOA", soa(9))
    assert servers.said() == {}
    assert not tried(servers)
    ((sentence, level),) = servers.said().items()
    assert level == "warning"
    said = f"DNS server {servers.second} does not follow: it has serial 7 of zone {ZONE}, and ns1 has had 9 for 10 s"
    assert said in sentence
    servers.ns2.write(ZONE, "SOA", soa(9))
    assert tried(servers)
    assert servers.said() == {}


@pytest.mark.parametrize("first", [2**32 - 1, 5])
def test_a_server_that_is_ahead_follows(servers: Servers, first: int) -> None:
    """Serials begin anew."""
    servers.ns1.write(ZONE, "SOA", soa(first))
    assert tried(servers)


def test_a_transfer_that_comes_late_is_no_trouble(servers: Servers) -> None:
    servers.ns1.write(ZONE, "SOA", soa(8))

    class Comes(Stop):
        def wait(self, timeout: float | None = None) -> bool:
            if len(self.waited) == 3:
                servers.ns2.write(ZONE, "SOA", soa(8))
            return super().wait(timeout)

    assert tried(servers, Comes(SetClock(time.time())))


def test_what_was_found_long_ago_says_nothing(servers: Servers) -> None:
    (servers.plan.parent / "secret").write_text(SECRET.lower())
    assert not tried(servers)
    book = servers.plan.parent / "state/zones.json"
    found = json.loads(book.read_text())
    found[WWW]["at"] -= VALID_FOR + 60
    book.write_text(json.dumps(found))
    assert servers.said() == {}


def test_it_is_tried_seldom_and_soon_again_while_something_is_wrong(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = iter([True, False, True])
    monkeypatch.setattr(zone_watch.ZoneWatch, "turn", lambda _self, _stop: next(results))
    clock = SetClock()
    stop = Stop(clock, waits=4)
    keep_trying_zones(Environment(load_plan(servers.plan), clock), stop)
    assert stop.waited == [FIRST_AFTER, EVERY, AGAIN_AFTER, EVERY]


def test_the_watcher_tries_it(servers: Servers) -> None:
    """What it finds is shown by `status`, which tries no key."""
    servers.plan.write_text(servers.plan.read_text().replace("    max_staleness: 2m", "    timeouts: {dns: 0.2s}"))
    (servers.plan.parent / "secret").write_text(SECRET.lower())
    soon = "from vcrecovery.detect import zone_watch; zone_watch.FIRST_AFTER = 0.1"
    code = f"{soon}; from vcrecovery.cli.main import main; main()"
    watcher = subprocess.Popen([sys.executable, "-c", code, "watch", "--plan", servers.plan], stderr=subprocess.DEVNULL)
    try:
        wait_for((servers.plan.parent / "state/zones.json").exists, "the first try", 60)
    finally:
        watcher.terminate()
        watcher.wait(60)
    assert any("rejects TSIG key key" in sentence for sentence in servers.said())


def test_what_all_say_is_said_once() -> None:
    wrong = with_others(("10.9.9.9",))
    assert len(dns_findings(replace(wrong, names=(replace(wrong.names[0], found=("10.9.9.9",)),)))) == 1


def test_what_is_silent_is_said_once(servers: Servers) -> None:
    """Of a first server that does not answer now, what it said to the last update is no news."""
    silent = with_others(tried=Tried(NOW, "ns1 does not answer"))
    silent = replace(silent, names=(replace(silent.names[0], found=None, detail="ns1 is silent"),))
    assert len(dns_findings(silent)) == 1
