"""The status page: what it shows, who may read it, and that nothing else can be had from it."""

from __future__ import annotations

import base64
import json
import re
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from test_watch_cli import Watcher
from view_cases import DOWN, NOW, OPEN, standby, view
from view_program import PATIENCE
from warm_program import vcrecovery

from vcrecovery.core.domain import DomainReading
from vcrecovery.core.health import Course
from vcrecovery.core.power import Power
from vcrecovery.core.service_state import ServiceState
from vcrecovery.plan.load import load_plan
from vcrecovery.plan.problems import PlanError
from vcrecovery.report.secondaries import being_drained
from vcrecovery.report.status_html import html_page
from vcrecovery.report.view import ServiceView
from vcrecovery.store.drained import Drained
from vcrecovery_lab.ports import free_port
from vcrecovery_lab.secondary_vm.certificate import make_certificate

TOKEN = "planted-8d1f6c0e"


class _Words(HTMLParser):
    """What a reader sees, and which tags there are."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.tags: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        if tag != "meta":
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self.text.append(data)

    @property
    def closed(self) -> bool:
        return not self._open


def read(*views: ServiceView, refreshes: bool = True) -> _Words:
    words = _Words()
    words.feed(html_page(views, NOW, refreshes=refreshes))
    assert words.closed
    return words


def test_all_is_well() -> None:
    words = read(view())
    said = " ".join(words.text)
    assert "1 service is well" in said
    assert "Needs attention" not in said
    assert not {"script", "form", "input", "img", "link", "iframe"} & set(words.tags)


def test_what_needs_attention_stands_first_with_its_command() -> None:
    crashed = view(reading=DomainReading(Power.SHUTOFF, "crashed"), course=DOWN)
    page = html_page([crashed, view("db")], NOW, refreshes=True)
    assert page.index("Needs attention now") < page.index("<h2>Services")
    assert re.search(r"<title>\(\d+\) VCRecovery", page)


def test_an_open_failover_is_shown_step_by_step() -> None:
    said = "".join(read(view(state=ServiceState("web", 1, open_episode=OPEN))).text)
    assert "Under way" in said
    assert f"epoch {OPEN.epoch}" in said


def test_what_is_about_a_secondary_is_shown_too() -> None:
    later = being_drained({"sec1": Drained(NOW - 60, "root")})
    page = html_page([view()], NOW, later, refreshes=True)
    assert "1 can wait" in page
    assert "<code>vcrecovery undrain sec1</code>" in page


def test_what_others_say_stays_text() -> None:
    bad = "<script>alert(1)</script> \"' &amp; \x1b[2J"
    words = read(
        view(standby=standby(None, "unreachable", bad), reading=DomainReading(Power.UNREACHABLE, detail=bad)),
        view("db", state=ServiceState("db", 1, open_episode=replace(OPEN, cause=bad))),
    )
    assert "script" not in words.tags
    assert "<script>alert(1)</script>" in "".join(words.text)
    assert "\x1b" not in "".join(words.text)


def test_a_reader_may_stop_it_from_refreshing() -> None:
    assert 'http-equiv="refresh"' in html_page([view()], NOW, refreshes=True)
    assert 'http-equiv="refresh"' not in html_page([view()], NOW, refreshes=False)


def test_health_is_told_in_words() -> None:
    assert "down since" in " ".join(read(view(course=replace(Course(), health=DOWN.health, since=NOW - 60))).text)


# -- the plan -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("{listen: 0.0.0.0}", "needs tls and token_file on 0.0.0.0"),
        ("{listen: 10.0.0.1, token_file: /t}", "needs tls on 10.0.0.1"),
        ("{listen: 10.0.0.1, tls: {certificate: /c, key: /k}}", "needs token_file on 10.0.0.1"),
    ],
)
def test_others_may_not_read_it_unasked(failed_over: Path, page: str, said: str) -> None:
    failed_over.write_text(failed_over.read_text() + f"status_page: {page}\n")
    with pytest.raises(PlanError, match=re.escape(said)):
        load_plan(failed_over)


# -- the server ---------------------------------------------------------------------------------------------------


class Served:
    """A watcher that serves the page."""

    def __init__(self, plan: Path, folder: Path) -> None:
        self.port, self.folder, self.token = free_port(), folder, folder / "token"
        self.certificate, self.key = make_certificate(folder, "page")
        self.token.write_text(f"{TOKEN}\n")
        self.token.chmod(0o600)
        tls = f"tls: {{certificate: {self.certificate}, key: {self.key}}}"
        page = f"status_page: {{port: {self.port}, {tls}, token_file: {self.token}}}\n"
        plan.write_text(plan.read_text() + page)
        self.watcher = Watcher(plan)
        self.watcher.says(f"status page: https://127.0.0.1:{self.port}/")

    def get(self, path: str, headers: Mapping[str, str] = {}, method: str = "GET") -> tuple[int, Any, str]:
        trusted = ssl.create_default_context(cafile=str(self.certificate))
        trusted.check_hostname = False
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusted)
        )
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}{path}", headers=dict(headers), method=method)
        try:
            with opener.open(request, timeout=PATIENCE) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read().decode()


@pytest.fixture
def served(failed_over: Path, tmp_path: Path) -> Iterator[Served]:
    site = Served(failed_over, tmp_path)
    try:
        yield site
    finally:
        site.watcher.end()


def basic(word: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"anybody:{word}".encode()).decode()}


def test_it_is_served_to_those_who_know_the_token(served: Served, failed_over: Path) -> None:
    for headers in ({}, basic("wrong"), basic(""), {"Authorization": f"Digest {TOKEN}"}, {"Authorization": "Basic %%"}):
        status, answered, text = served.get("/", headers)
        assert status == 401
        assert "Basic realm=" in answered["WWW-Authenticate"]
        assert "web" not in text
    for headers in (basic(TOKEN), {"Authorization": f"Bearer {TOKEN}"}):
        status, answered, text = served.get("/", headers)
        assert status == 200
        assert "web" in text
        assert "default-src 'none'" in answered["Content-Security-Policy"]
    assert served.get("/?stay", basic(TOKEN))[2].count("http-equiv") == 0
    assert served.get("/nowhere", basic(TOKEN))[0] == 404
    assert served.get("/", basic(TOKEN), "POST")[0] == 501
    # Machines get what `status --json` says.
    data = json.loads(served.get("/status.json", basic(TOKEN))[2])
    said = json.loads(vcrecovery("status", "--json", "--plan", failed_over).stdout)
    assert [entry.keys() for entry in data["services"]] == [entry.keys() for entry in said["services"]]
    assert data["services"][0]["serves"] == said["services"][0]["serves"]
    assert data["findings"] == said["findings"]


def test_a_token_that_changes_counts_at_once(served: Served) -> None:
    served.token.write_text("another")
    assert served.get("/", basic(TOKEN))[0] == 401
    assert served.get("/", basic("another"))[0] == 200
    served.token.chmod(0o644)
    status, _, text = served.get("/", basic("another"))
    assert status == 503
    assert "can be read by others" in text


def test_plain_http_and_noise_hold_up_nobody(served: Served) -> None:
    waiting = [socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE) for _ in range(3)]
    try:
        waiting[0].sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert served.get("/", basic(TOKEN))[0] == 200
    finally:
        for connection in waiting:
            connection.close()


def test_without_a_certificate_the_watcher_goes_on(failed_over: Path, tmp_path: Path) -> None:
    page = f"status_page: {{port: {free_port()}, tls: {{certificate: {tmp_path}/no, key: {tmp_path}/no}}}}\n"
    failed_over.write_text(failed_over.read_text() + page)
    watcher = Watcher(failed_over)
    try:
        watcher.says("the status page's certificate")
        watcher.says("web: the standby serves")
    finally:
        watcher.end()
