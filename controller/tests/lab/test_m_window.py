"""Zabbix as the operator's window: a real browser logs in, and finds what is asked at 3 a.m. answered in text."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from pyzabbix.api import ZabbixAPI
from view_cases import CRASHED, DONE, NOW, OPEN, standby, view
from zabbix_utils import ItemValue, Sender
from zabbix_utils.exceptions import ProcessingError

from vcrecovery.balance.amounts import Amounts
from vcrecovery.balance.load import Load
from vcrecovery.core.health import Course, Health
from vcrecovery.core.service_state import ServiceState, Serving, Side
from vcrecovery.detect.zabbix_health import ZabbixHealth
from vcrecovery.drivers.clock import SystemClock
from vcrecovery.plan.monitoring import Zabbix
from vcrecovery.report import zabbix_status
from vcrecovery.report.findings import Finding, Level
from vcrecovery.report.view import ServiceView
from vcrecovery.report.zabbix_status import ZabbixServing, ZabbixStatus
from vcrecovery.store.load_book import Seen
from vcrecovery_lab.zabbix.laid_out import PATIENCE, LaidOut

from .browser import Page, browser
from .test_w_report_page import SCREENSHOTS
from .waiting import wait_for
from .zabbix_stack import VERSIONS, throwaway_zabbix

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

SERVICES = ("db", "mail", "web")
VM = "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e000{}"


@dataclass
class Site:
    """What the controller sees."""

    views: dict[str, ServiceView] = field(default_factory=lambda: {name: view(name) for name in SERVICES})
    serving: dict[str, Serving] = field(default_factory=dict)
    courses: dict[str, Course] = field(
        default_factory=lambda: {name: Course(Health.ANSWERS, 1.0, "", 0.02) for name in SERVICES}
    )
    loads: dict[str, Seen] = field(default_factory=dict)
    more: list[Finding] = field(default_factory=list)

    def is_current(self) -> bool:
        return True

    def who_serves(self) -> dict[str, Serving]:
        return self.serving

    def look(self) -> Sequence[ServiceView]:
        return list(self.views.values())


class Window(LaidOut):
    """A Zabbix that the role has laid out, what a relay and a controller tell it, and a browser."""

    def __init__(self, stack: Any, folder: Path) -> None:
        self.api: ZabbixAPI = stack.api()
        self.site = Site()
        self.zabbix = Zabbix.model_validate({"trapper": {"address": "127.0.0.1", "port": stack.trapper_port}})
        self.asks = True
        plan = {
            "version": 1,
            "state_dir": str(folder / "state"),
            "hypervisors": {"hv1": {"site": "main"}, "hv2": {"site": "main"}},
            "zabbix": {"api": {"url": stack.url, "token_file": str(folder / "token")}},
            "detection": {"host_silent_for": "10s"},
        }
        more = {
            "vcrecovery_config_dir": str(folder / "etc"),
            "controller_has_the_program": True,
            "monitoring_supervisor": "process",
            "monitoring_told_groups": ["Zabbix administrators"],
        }
        super().__init__(stack, folder, plan, Path("/bin/true"), more)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """The relay asks, and the controller tells, in the background."""
        stop = threading.Event()
        clock, site = SystemClock(), self.site
        health = ZabbixHealth(self.zabbix, site, clock, ["sec1"], lambda: site.loads)
        status = ZabbixStatus(self.zabbix, clock, site.look, lambda: site.more)
        serving = ZabbixServing(self.zabbix, SERVICES, clock, site.who_serves, status.soon)
        runs = (health.run, status.run, serving.run, self._ask)
        threads = [threading.Thread(target=run, args=(stop,)) for run in runs]
        for thread in threads:
            thread.start()
        try:
            # Often enough for the short times that the test has Zabbix wait.
            with mock.patch.multiple(zabbix_status, ALL_EVERY=0.5, SIGN_EVERY=0.5):
                yield
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    def _ask(self, stop: threading.Event) -> None:
        sender = Sender("127.0.0.1", self.stack.trapper_port)
        guests = [
            {"{#UUID}": VM.format(number), "{#VM}": f"{name}1", "{#SERVICE}": name}
            for number, name in enumerate(SERVICES)
        ]
        listed_at = float("-inf")
        while not stop.wait(0.5):
            if not self.asks:
                continue
            values = [ItemValue(host, key, "1") for host in ("hv1", "hv2") for key in ("vcr.asked", "vcr.heartbeat")]
            if time.monotonic() - listed_at > 5:
                listed_at = time.monotonic()
                values.append(ItemValue("hv1", "vcr.guests", json.dumps(guests)))
                values.append(ItemValue("hv1", "vcr.summary", "web: VM web1 is running"))
            with suppress(OSError, ProcessingError):
                sender.send(values)

    def sends(self, key: str, value: str) -> None:
        """Until Zabbix knows the item."""
        item = [ItemValue("hv1", key, value)]
        wait_for(lambda: not Sender("127.0.0.1", self.stack.trapper_port).send(item).failed, key, PATIENCE)

    def problems(self) -> list[str]:
        found = self.api.problem.get(output=["name"], sortfield="eventid")
        # Of Zabbix itself there are some.
        return sorted(one["name"] for one in found if "ervice" in one["name"] or "Site" in one["name"])

    def comes(self, *names: str) -> None:
        """These problems and no others, by what they begin with."""

        def there() -> bool:
            found = self.problems()
            return len(found) == len(names) and all(
                one.startswith(name) for one, name in zip(found, sorted(names), strict=True)
            )

        try:
            wait_for(there, f"the problems {names}", PATIENCE)
        except AssertionError as error:
            raise AssertionError(f"{error}; there are {self.problems()}") from None

    def host(self, name: str) -> str:
        return str(self.api.host.get(filter={"host": name}, output=["hostid"])[0]["hostid"])

    def macro(self, host: str, name: str, value: str) -> None:
        self.api.usermacro.create(hostid=self.host(host), macro=name, value=value)


@contextmanager
def laid_out(version: str) -> Iterator[Window]:
    with throwaway_zabbix(version) as stack:
        folder = stack.folder / "m"
        folder.mkdir()
        folder.chmod(0o755)
        made = Window(stack, folder)
        try:
            made.play()
            # Zabbix waits shorter here for what a test has to wait for.
            for name in ("{$VCR.UNPROTECTED.FOR}", "{$VCR.FAILED.FOR}"):
                made.macro("vcrecovery-services", name, "4s")
            made.macro("site-main", "{$VCR.RELAY.SILENT}", "10s")
            yield made
        finally:
            made.stop("zabbix-agent")
            made.stop("vcrecovery-relay")


@pytest.fixture(scope="module")
def each() -> Iterator[dict[str, Future[Window]]]:
    with ThreadPoolExecutor(2) as pool, ExitStack() as ends:
        made = {version: pool.submit(ends.enter_context, laid_out(version)) for version in VERSIONS}
        yield made
        wait(made.values())


@pytest.fixture(scope="module", params=VERSIONS)
def window(each: dict[str, Future[Window]], request: pytest.FixtureRequest) -> Window:
    return each[request.param].result()


@pytest.fixture(scope="module")
def page(window: Window) -> Iterator[Page]:
    with browser() as one:
        one.go(f"{window.stack.url}/index.php?name=Admin&password=zabbix&enter=Sign+in")
        yield one


def served_by_its_standby(name: str) -> ServiceView:
    state = ServiceState(name, epoch=3, side=Side.STANDBY, seen_running_at=NOW - 9999)
    done = replace(DONE, service=name)
    return view(name, CRASHED, state=state, done=done, last=done, standby=standby(state="running"), names=())


def failing_over(name: str) -> ServiceView:
    state = ServiceState(name, epoch=3, seen_running_at=NOW - 9999, open_episode=replace(OPEN, service=name))
    return view(name, CRASHED, state=state)


def shown(page: Page, file: str, *texts: str) -> None:
    """All of it, in the end; a picture is kept for whoever wants to look."""
    missing: list[str] = []

    def there() -> bool:
        text = page.text()
        missing[:] = [one for one in texts if one not in text]
        return not missing

    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    try:
        wait_for(there, "the page", PATIENCE)
    except AssertionError as error:
        page.screenshot(SCREENSHOTS / f"{file}-failed.png")
        raise AssertionError(f"{file}: not on the page: {missing}; there is: {page.text()[:3000]}") from error
    page.screenshot(SCREENSHOTS / f"{file}.png")


def test_a_crash_from_its_problem_to_that_of_the_controller(window: Window, page: Page) -> None:
    """Somebody half awake sees what is wrong, who is unprotected, what was done, and who is overloaded."""
    site, version = window.site, window.stack.version
    site.views["db"] = view("db", standby=standby(None, detail="no heartbeat has arrived in db yet"))
    load = Load(Amounts(2.0, 4e9), Amounts(1.9, 1e9))
    with window.watching():
        window.comes("Service db is unprotected: the age of its standby is not known")
        # The VM crashes; the controller begins, and fences it before anything else is seen.
        window.sends(f"vcr.state[{VM.format(2)}]", "running")
        window.sends(f"vcr.state[{VM.format(2)}]", "shutoff (crashed)")
        site.views["web"], site.serving["web"] = failing_over("web"), Serving(Side.PRIMARY, 3, at_work=True)
        unprotected = "Service db is unprotected: the age"
        window.comes(
            unprotected,
            "Service web: VM web1 has crashed: shutoff (crashed)",
            "Service web is changing hands",
        )
        # The fence ends the problem of the VM. That of the service is there before, and stays.
        window.sends(f"vcr.state[{VM.format(2)}]", "shutoff (destroyed)")
        site.views["web"], site.serving["web"] = served_by_its_standby("web"), Serving(Side.STANDBY, 3)
        window.comes(unprotected, "Service web is served by its standby")
        site.loads["sec1"] = Seen(1.0, load, 0.5, "95 % of its cores", proposal=("mail to sec2",))
        site.more = [Finding(Level.WARNING, "sec2", "drained since 02:10 by ann", "`vcrecovery undrain sec2`")]
        site.courses["mail"] = Course(Health.DOWN, 2.0, "10.10.0.12:25: connection refused")
        window.comes(
            unprotected,
            "Service mail is down: 10.10.0.12:25",
            "Service web is served by its standby",
        )
        wait_for(
            lambda: any(
                "Secondary sec1 is overloaded" in one["name"] for one in window.api.problem.get(output=["name"])
            ),
            "the overload",
            PATIENCE,
        )
        found = window.api.dashboard.get(filter={"name": "VCRecovery"}, output=["dashboardid"])
        page.go(f"{window.stack.url}/zabbix.php?action=dashboard.view&dashboardid={found[0]['dashboardid']}")
        texts = [
            "Service web is served by its standby",
            "Service db is unprotected",
            "the age of its standby is not known",
            "Service mail is down",
            "Secondary sec1 is overloaded: 95 % of its cores; mail to sec2",
            # What was done about it, and what to type.
            "last: failover of",
            "`vcrecovery failback web`",
            "sec2: drained since 02:10 by ann",
        ]
        if version == "7.0":
            texts += ["unprotected (2)", "down (2)", "shutoff (destroyed)"]
        shown(page, f"zabbix-{version}-site", *texts)
        page.go(f"{window.stack.url}/zabbix.php?action=host.dashboard.view&hostid={window.host('vcrecovery-services')}")
        shown(page, f"zabbix-{version}-controller", "the age of its standby is not known", "`vcrecovery failback web`")
        page.go(f"{window.stack.url}/zabbix.php?action=host.dashboard.view&hostid={window.host('hv1')}")
        shown(page, f"zabbix-{version}-hypervisor", "web: VM web1 is running")
        # Back at its VM, with a standby that is fresh, nothing is left.
        site.views["db"], site.views["web"] = view("db"), view("web")
        site.serving.clear()
        site.courses["mail"] = Course(Health.ANSWERS, 3.0, "", 0.01)
        window.comes()


def test_a_relay_that_is_down_is_no_silent_site(window: Window) -> None:
    with window.watching():
        window.comes()
        wait_for(lambda: _value(window, "site-main", "vcr.site.asked") == "2", "the relay's questions", PATIENCE)
        window.asks = False
        try:
            window.comes("Site main: nobody has asked its hypervisors for 10s")
        finally:
            window.asks = True
        window.comes()


def test_somebody_who_looks_sees_that_nobody_watches(window: Window, page: Page) -> None:
    with window.watching():
        window.comes()
    services = window.host("vcrecovery-services")
    macro = window.api.usermacro.create(hostid=services, macro="{$VCR.WATCH.SILENT}", value="1s")
    try:
        (found,) = window.api.dashboard.get(filter={"name": "VCRecovery"}, output=["dashboardid"])
        # Zabbix looks every 30 s for what does not come.
        wait_for(
            lambda: any("Nothing watches" in one["name"] for one in window.api.problem.get(output=["name"])),
            "the problem",
            PATIENCE,
        )
        page.go(f"{window.stack.url}/zabbix.php?action=dashboard.view&dashboardid={found['dashboardid']}")
        shown(page, f"zabbix-{window.stack.version}-nobody", "Nothing watches the primaries: the controller has told")
    finally:
        window.api.usermacro.delete(macro["hostmacroids"][0])


def _value(window: Window, host: str, key: str) -> str:
    (item,) = window.api.item.get(host=host, filter={"key_": key}, output=["lastvalue"])
    return str(item["lastvalue"])


def test_an_age_that_is_not_known_is_not_0(window: Window) -> None:
    window.site.views["db"] = view("db", standby=standby(None))
    try:
        with window.watching():
            wait_for(lambda: _value(window, "vcrecovery-services", "vcr.age[db]") == "-1", "the age", PATIENCE)
            assert float(_value(window, "vcrecovery-services", "vcr.age[mail]")) == 5.0
    finally:
        window.site.views["db"] = view("db")


def test_somebody_is_sent_what_the_controller_answers(window: Window) -> None:
    (action,) = window.api.action.get(
        filter={"name": "VCRecovery tells"}, output=["name"],
        selectOperations="extend", selectRecoveryOperations="extend", selectUpdateOperations="extend",
        selectAcknowledgeOperations="extend",
    )  # fmt: skip
    update = action.get("update_operations") or action.get("updateOperations") or action.get("acknowledgeOperations")
    assert update[0]["opmessage"]["message"] == "{EVENT.UPDATE.MESSAGE}"
    assert [one["opmessage"]["subject"] for one in action["operations"]] == ["{EVENT.NAME}"]
