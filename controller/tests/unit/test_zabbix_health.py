"""What Zabbix is told of the services' health, over a real connection to somebody who speaks the trapper's protocol."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby

import pytest

from lab.waiting import wait_for
from relay_bench.recorder import Recorder
from vcrecovery.balance.amounts import Amounts
from vcrecovery.balance.devices import DiskLoad, NetworkLoad
from vcrecovery.balance.load import Load
from vcrecovery.core.health import Course, Health
from vcrecovery.detect import zabbix_health
from vcrecovery.detect.zabbix_health import LIST_AGAIN_AFTER, LIST_EVERY, SAID, SIGN_EVERY, SeenPower, ZabbixHealth
from vcrecovery.detect.zabbix_way import REFUSED_FOR
from vcrecovery.plan.monitoring import Zabbix
from vcrecovery.store.load_book import Seen
from vcrecovery_lab.ports import free_port

HOST = "vcrecovery-services"
WAITING = 50
WELL = Course(Health.ANSWERS, 1.0, "", 0.0125)
DOWN = Course(Health.DOWN, 2.0, "10.10.0.10:80: connection refused")


@dataclass
class Clock:
    """As the machine's, and ahead of it by as much as a test says."""

    ahead: float = 0.0

    def now(self) -> float:
        return time.time() + self.ahead

    def steady(self) -> float:
        return time.monotonic() + self.ahead

    def sleep(self, seconds: float) -> None:
        raise AssertionError("it waits for `stop`")


@dataclass
class Watch:
    """What asks the services."""

    courses: dict[str, Course] = field(default_factory=lambda: {"web": Course(), "mail": Course()})
    current: bool = True
    looks: int = 0

    def is_current(self) -> bool:
        self.looks += 1
        return self.current

    def wait_for_looks(self, number: int) -> None:
        """The last but one of them is over, and began after the call."""
        end = self.looks + number + 1
        wait_for(lambda: self.looks >= end, "a look at the services", 30)


@dataclass
class Told:
    """All that plays a part."""

    zabbix: Recorder
    watch: Watch = field(default_factory=Watch)
    clock: Clock = field(default_factory=Clock)
    loads: Mapping[str, Seen] = field(default_factory=dict)
    powers: Mapping[str, SeenPower] = field(default_factory=dict)

    def known_loads(self) -> Mapping[str, Seen]:
        return self.loads

    def known_powers(self) -> Mapping[str, SeenPower]:
        return self.powers

    def texts(self, key: str) -> list[str]:
        return [value.text for value in self.zabbix.values(HOST, key)]

    def comes(self, key: str, *texts: str) -> None:
        """All that ever came of this item, in the end."""
        wait_for(lambda: self.texts(key)[-len(texts) :] == list(texts), f"{key}: {texts}", 30)
        assert self.texts(key) == list(texts)

    def answers(self) -> None:
        """Both services, and Zabbix knows it."""
        self.watch.courses |= {"web": WELL, "mail": WELL}
        for name in self.watch.courses:
            self.comes(f"vcr.health[{name}]", "0")

    def stays(self, what: Callable[[], object]) -> None:
        """For a few turns."""
        before = what()
        self.watch.wait_for_looks(10)
        assert what() == before


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    """It runs, as in the watcher, but looks more often."""
    monkeypatch.setattr(zabbix_health, "LOOK_EVERY", 0.01)
    monkeypatch.setattr(zabbix_health, "RETRY_AFTER", 0.05)
    monkeypatch.setattr(zabbix_health, "TIMEOUT", 0.3)
    monkeypatch.setattr(zabbix_health, "CAPACITY", WAITING)
    made = Told(Recorder("127.0.0.1", free_port()))
    made.zabbix.start()
    plan = Zabbix.model_validate({"trapper": {"address": made.zabbix.address, "port": made.zabbix.port}})
    stop = threading.Event()
    sender = ZabbixHealth(plan, made.watch, made.clock, ["sec1", "sec2"], made.known_loads, made.known_powers)
    thread = threading.Thread(target=sender.run, args=(stop,))
    thread.start()
    try:
        yield made
    finally:
        stop.set()
        thread.join(30)
        made.zabbix.stop()
        assert not thread.is_alive()


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if SAID in record.getMessage()]


def test_changes_are_told_at_once_and_the_reason_with_them(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    told.comes("vcr.watch", "2")
    (listing,) = told.texts("vcr.services")
    assert json.loads(listing) == [{"{#SERVICE}": "web"}, {"{#SERVICE}": "mail"}]
    told.answers()
    # No sign of life will be due.
    now = told.clock.steady()
    monkeypatch.setattr(told.clock, "steady", lambda: now)
    told.watch.courses["web"] = DOWN
    told.comes("vcr.health[web]", "0", "2")
    told.comes("vcr.why[web]", "", DOWN.why)
    # It has no latency while it does not answer, and the other one is not told again.
    told.comes("vcr.seconds[web]", "0.012500")
    told.watch.courses["web"] = Course(Health.SLOW, 3.0, "", 1.5)
    told.comes("vcr.health[web]", "0", "2", "1")
    told.comes("vcr.seconds[web]", "0.012500", "1.500000")
    told.watch.courses["web"] = Course()
    told.comes("vcr.health[web]", "0", "2", "1", "3")
    told.comes("vcr.health[mail]", "0")


def test_a_reason_comes_before_the_health_that_makes_the_problem(told: Told) -> None:
    told.answers()
    told.watch.courses["web"] = DOWN
    told.comes("vcr.health[web]", "0", "2")
    keys = [value.key for value in told.zabbix.values() if value.text in ("2", DOWN.why)]
    assert keys[-2:] == ["vcr.why[web]", "vcr.health[web]"]


def test_it_gives_signs_of_life(told: Told) -> None:
    told.answers()
    told.stays(lambda: len(told.zabbix.values()))
    told.clock.ahead += SIGN_EVERY
    told.comes("vcr.watch", "2", "2")
    told.comes("vcr.health[mail]", "0", "0")
    told.comes("vcr.seconds[mail]", "0.012500", "0.012500")
    # No reason, and nothing new: that is not told again and again.
    told.comes("vcr.why[mail]", "")
    told.clock.ahead += LIST_EVERY
    told.comes("vcr.why[mail]", "", "")


def test_what_is_not_known_is_told_as_such(told: Told) -> None:
    told.comes("vcr.watch", "2")
    told.stays(lambda: told.texts("vcr.health[web]"))
    told.clock.ahead += SIGN_EVERY
    told.comes("vcr.health[web]", "3")


def test_nothing_is_told_when_nobody_asks_the_services_any_more(told: Told) -> None:
    told.answers()
    told.watch.current = False
    told.stays(lambda: len(told.zabbix.values()))
    told.clock.ahead += SIGN_EVERY
    told.stays(lambda: len(told.zabbix.values()))
    told.watch.current = True
    told.comes("vcr.watch", "2", "2")


@pytest.mark.parametrize("how", ["stopped", "silent", "garbage"])
def test_a_zabbix_that_is_away_is_told_later_what_happened_meanwhile(
    told: Told, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    told.answers()
    told.watch.courses["mail"] = DOWN
    told.comes("vcr.health[mail]", "0", "2")
    if how == "stopped":
        told.zabbix.stop()
    else:
        told.zabbix.mode = how
    for course in (DOWN, WELL, DOWN):
        told.watch.courses["web"] = course
        wait_for(lambda: said(caplog), "the line", 30)
        told.clock.ahead += SIGN_EVERY
        # It looks between two tries.
        told.watch.wait_for_looks(1)
    if how == "stopped":
        told.zabbix.start()
    told.zabbix.mode = "ok"
    wait_for(lambda: len(said(caplog)) == 2, "the second line", 30)
    told.watch.courses["web"] = WELL
    wait_for(lambda: told.texts("vcr.health[web]")[-1] == "0", "the end of it", 30)
    assert [text for text, _ in groupby(told.texts("vcr.health[web]"))] == ["0", "2", "0", "2", "0"]
    # Of the service that did not change nothing was kept: one sign of life follows.
    assert told.texts("vcr.health[mail]") == ["0", "2", "2"]
    away, again = said(caplog)
    assert away.startswith(f"Zabbix is not told {SAID}: Zabbix's trapper 127.0.0.1:{told.zabbix.port} ")
    assert again == f"Zabbix is told again {SAID}"


def test_what_waits_is_bounded_and_ends_with_what_is_true(told: Told) -> None:
    told.answers()
    told.watch.courses["mail"] = DOWN
    told.comes("vcr.health[mail]", "0", "2")
    before = len(told.zabbix.values())
    told.zabbix.stop()
    for number in range(101):
        told.watch.courses["web"] = (DOWN, WELL)[number % 2]
        time.sleep(0.02)
    told.zabbix.start()
    wait_for(lambda: told.texts("vcr.watch")[1:], "the sign of life", 30)
    wait_for(lambda: told.texts("vcr.health[mail]")[2:], "the other service", 30)
    # All that was queued, and once everything.
    assert before < len(told.zabbix.values()) <= before + WAITING + 10
    assert told.texts("vcr.health[web]")[-1] == "2"
    assert told.texts("vcr.why[web]")[-1] == DOWN.why


def test_a_zabbix_without_the_host_is_told_all_once_it_has_it(told: Told, caplog: pytest.LogCaptureFixture) -> None:
    refused: list[str] = []
    told.zabbix.refuses = lambda _host, key: "[" in key and not refused.append(key)  # type: ignore[func-returns-value]
    told.watch.courses |= {"web": DOWN, "mail": WELL}
    wait_for(lambda: refused, "the first refusal", 30)
    for _ in range(2):
        told.clock.ahead += REFUSED_FOR
        wait_for(lambda: said(caplog), "the line", 30)
    assert len(said(caplog)) == 1
    assert f"no host {HOST}" in said(caplog)[0]
    # Somebody may have made it anew: it gets the list again.
    requests = len(told.texts("vcr.services"))
    told.clock.ahead += LIST_AGAIN_AFTER
    wait_for(lambda: len(told.texts("vcr.services")) > requests, "the list", 30)
    told.zabbix.refuses = lambda _host, _key: False
    told.clock.ahead += SIGN_EVERY
    wait_for(lambda: told.texts("vcr.health[web]"), "the health", 30)
    assert told.texts("vcr.why[web]")[0] == DOWN.why


def test_how_loaded_the_secondaries_are(told: Told) -> None:
    load = Load(
        Amounts(2.0, 4e9),
        Amounts(1.9, 1e9),
        {name: Amounts(cores, 2.0**28) for name, cores in (("idle", 0.0), ("db", 0.4), ("web", 1.2), ("mail", 0.3))},
        whole=True,
        stolen=0.3,
        pressure={"cpu": 41.5, "memory": 0.0},
        disk=DiskLoad("vda", 0.06, 0.9, 5e6),
        network=NetworkLoad(7e6, 2e6, 0.5, 0.56, 125e6),
    )
    told.comes("vcr.secondaries", json.dumps([{"{#SECONDARY}": "sec1"}, {"{#SECONDARY}": "sec2"}]))
    told.loads = {
        "sec1": Seen(1.0, load, 0.5, "95 % of its cores", proposal=("web to sec2",)),
        "sec2": Seen(1.0, trouble="it does not answer"),
        # Zabbix has no items of it.
        "elastic-1": Seen(1.0, load),
    }
    told.clock.ahead += SIGN_EVERY
    told.comes("vcr.cpu[sec1]", "95.0")
    told.comes("vcr.memory[sec1]", "25.0")
    told.comes("vcr.overloaded[sec1]", "1")
    told.comes("vcr.relief[sec1]", "95 % of its cores; web to sec2")
    told.comes("vcr.disklatency[sec1]", "0.060000")
    told.comes("vcr.diskbusy[sec1]", "90.0")
    told.comes("vcr.received[sec1]", "7000000")
    told.comes("vcr.network[sec1]", "56.0")
    told.comes("vcr.steal[sec1]", "15.0")
    told.comes("vcr.pressure.cpu[sec1]", "41.5")
    told.comes("vcr.pressure.memory[sec1]", "0.0")
    most = "; ".join(
        f"{name}: {cores} cores, 256 MiB of memory" for name, cores in (("web", 1.2), ("db", 0.4), ("mail", 0.3))
    )
    told.comes("vcr.uses[sec1]", most)
    assert told.texts("vcr.overloaded[sec2]") == []
    # What the kernel does not say is not told.
    assert told.texts("vcr.pressure.io[sec1]") == []


def test_which_secondaries_are_on_and_for_how_long(told: Told) -> None:
    """One that was made since is listed before anything is said of it."""
    told.powers = {"sec2": SeenPower(1, 7200.4)}
    told.clock.ahead += SIGN_EVERY
    told.comes("vcr.power[sec2]", "1")
    told.comes("vcr.onfor[sec2]", "7200")
    told.powers = {"sec2": SeenPower(0, 7300.0), "elastic-1": SeenPower(2, 0.0)}
    told.loads = {"elastic-1": Seen(1.0, Load(Amounts(2.0, 4e9), Amounts(1.0, 1e9)))}
    told.clock.ahead += SIGN_EVERY
    told.comes("vcr.power[sec2]", "1", "0")
    names = [{"{#SECONDARY}": name} for name in ("sec1", "sec2", "elastic-1")]
    wait_for(lambda: json.loads(told.texts("vcr.secondaries")[-1]) == names, "the new list", 30)
    assert told.texts("vcr.power[elastic-1]") == []
    told.clock.ahead += SIGN_EVERY
    told.comes("vcr.power[elastic-1]", "2")
    told.comes("vcr.onfor[elastic-1]", "0")
    told.comes("vcr.cpu[elastic-1]", "50.0")
    assert told.texts("vcr.power[sec1]") == []
