"""The controller's client of the API, and its user with the least rights, at the real Zabbix 7.0 and 6.0."""

from __future__ import annotations

import itertools
import json
import logging
import ssl
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from pyzabbix.api import ZabbixAPIException

from vcrecovery.drivers.zabbix import LONGEST_MESSAGE, METHODS, NoSuchEventError, ZabbixServer
from vcrecovery.errors import ExternalError
from vcrecovery.plan.monitoring import ZabbixApi
from vcrecovery_lab.zabbix import Stack, controller_token

from .waiting import wait_for

pytestmark = pytest.mark.lab
_numbers = itertools.count(1)


@dataclass
class Controller:
    """A Zabbix, the client of a controller with its token, and problems at will."""

    stack: Stack
    token: str
    token_file: Path

    def server(self, **settings: object) -> ZabbixServer:
        api = ZabbixApi.model_validate({"url": self.stack.url, "token_file": self.token_file, **settings})
        # A slow machine is no failure here.
        return ZabbixServer(api, timeout=120.0)

    def problem(self, *, group: str = "VCRecovery", recover: bool = True) -> tuple[str, str]:
        """The name of a new host that has failed, and the id of its event."""
        name = f"hv{next(_numbers)}"
        api = self.stack.api()
        found = api.hostgroup.get(filter={"name": group})
        groupid = found[0]["groupid"] if found else api.hostgroup.create(name=group)["groupids"][0]
        (hostid,) = api.host.create(host=name, groups=[{"groupid": groupid}])["hostids"]
        api.item.create(hostid=hostid, name="failed", key_="failed", type=2, value_type=3)
        tags = [{"tag": "vcr-kind", "value": "host"}, {"tag": "vcr-host", "value": name}]
        if recover:
            tags.append({"tag": "vcr", "value": "recover"})
        api.trigger.create(
            description=f"{name} has failed", expression=f"last(/{name}/failed)=1", priority=5, tags=tags
        )
        self.fail(name)
        return name, self.events(name)[0]

    def fail(self, name: str, *, over: bool = False) -> None:
        """Returns when Zabbix has noticed.

        The value is sent until then: a server that has read the item and not yet its trigger takes a value for nothing.
        """
        known = len(self.events(name))

        def noticed() -> bool:
            self.stack.send((name, "failed", 0 if over else 1))
            return len(self.events(name)) > known

        wait_for(noticed, f"the event of {name}")

    def events(self, name: str) -> list[str]:
        """As the administrator sees them."""
        api = self.stack.api()
        (host,) = api.host.get(filter={"host": name}, output=["hostid"])
        found = api.event.get(hostids=[host["hostid"]], sortfield="eventid", output=["eventid"])
        return [str(event["eventid"]) for event in found]


@pytest.fixture(scope="module")
def controller(zabbix_each: Stack, tmp_path_factory: pytest.TempPathFactory) -> Controller:
    token = controller_token(zabbix_each.api())
    file = tmp_path_factory.mktemp("token") / "token"
    file.touch(mode=0o600)
    file.write_text(f"{token}\n")
    return Controller(zabbix_each, token, file)


def test_an_event_is_read_and_is_no_problem_any_more_when_it_is_over(controller: Controller) -> None:
    name, number = controller.problem()
    server = controller.server()
    event = server.event(number)
    assert event is not None
    assert (event.id, event.name, event.hosts) == (number, f"{name} has failed", (name,))
    assert dict(event.tags) == {"vcr": "recover", "vcr-kind": "host", "vcr-host": name}
    (row,) = controller.stack.database.ask(f"select clock, ns from events where eventid = {number}").splitlines()  # noqa: S608
    clock, ns = row.split("|")
    assert event.at == pytest.approx(int(clock) + int(ns) / 1e9)
    assert event.is_problem
    assert not event.acknowledged
    assert event.messages == ()
    assert number in server.open_problems()

    controller.fail(name, over=True)
    event = server.event(number)
    assert event is not None
    assert not event.is_problem
    assert number not in server.open_problems()
    recovery = server.event(controller.events(name)[1])
    assert recovery is not None
    assert not recovery.is_problem


def test_a_timeline_is_told_as_often_as_there_is_one(controller: Controller) -> None:
    _, number = controller.problem()
    server = controller.server()
    timeline = "web: served by its standby\n+0.2 s fenced: 'shut off' — ünïcode 😀"
    server.acknowledge(number, timeline)
    server.acknowledge(number, "failed back")
    event = server.event(number)
    assert event is not None
    assert event.acknowledged
    assert [message.text for message in event.messages] == [timeline, "failed back"]
    assert event.says(timeline)
    assert not event.says("web")
    assert event.is_problem


def test_a_message_that_is_too_long_or_no_text_is_told_as_far_as_it_goes(controller: Controller) -> None:
    _, number = controller.problem()
    server = controller.server()
    for letter in ("x", "€", "\0", "\udce4"):
        message = f"begin {letter * (LONGEST_MESSAGE + 1)}"
        server.acknowledge(number, message)
        event = server.event(number)
        assert event is not None
        assert event.says(message)
        assert event.messages[-1].text.startswith("begin")
        assert event.messages[-1].text.endswith("...")


@pytest.mark.parametrize("number", ["999999", str(2**63 - 1), str(2**63), "9" * 20, "0", "-1", "x", ""])
def test_an_event_that_does_not_exist_has_an_answer_of_its_own(controller: Controller, number: str) -> None:
    server = controller.server()
    assert server.event(number) is None
    with pytest.raises(NoSuchEventError, match=r"knows no event .*that the token's user may see"):
        server.acknowledge(number, "hello")


def test_events_of_other_groups_are_not_there(controller: Controller) -> None:
    _, number = controller.problem(group="Others")
    server = controller.server()
    assert server.event(number) is None
    assert number not in server.open_problems()
    with pytest.raises(NoSuchEventError):
        server.acknowledge(number, "hello")


def test_problems_that_start_no_recovery_are_not_open_ones(controller: Controller) -> None:
    _, other = controller.problem(recover=False)
    _, first = controller.problem()
    _, second = controller.problem()
    found = controller.server().open_problems()
    assert other not in found
    assert [number for number in found if number in (first, second)] == [first, second]


def test_the_token_is_good_for_three_methods_only(controller: Controller) -> None:
    api = controller.stack.api(controller.token)
    _, number = controller.problem()
    for method in METHODS:
        question = {"eventids": [number], "action": 4, "message": "x"} if "acknowledge" in method else {}
        api.do_request(method, question)
    (listed,) = controller.stack.api().role.get(filter={"name": "VCRecovery controller"}, selectRules="extend")
    assert sorted(listed["rules"]["api"]) == sorted(METHODS)
    for method in (
        "host.create", "host.get", "host.update", "script.execute", "script.get", "script.create", "action.create",
        "item.create", "history.get", "user.get", "user.update", "token.create", "token.generate", "token.get",
        "configuration.export", "usermacro.get", "trigger.update",
    ):  # fmt: skip
        with pytest.raises(ZabbixAPIException, match=f'No permissions to call "{method}"'):
            api.do_request(method, {})
    # 1: to close it, 8: to change its severity.
    for forbidden in ({"action": 1}, {"action": 8, "severity": 1}):
        with pytest.raises(ZabbixAPIException, match="No permissions"):
            api.do_request("event.acknowledge", {"eventids": [number], **forbidden})


def test_the_user_cannot_log_in(controller: Controller) -> None:
    for password in ("", "zabbix", "vcrecovery"):
        with pytest.raises(ZabbixAPIException):
            controller.stack.api().do_request("user.login", {"username": "vcrecovery", "password": password})


def test_a_token_that_is_not_taken_is_told_with_a_way_out_and_a_new_one_works_at_once(controller: Controller) -> None:
    server = controller.server()
    assert server.open_problems() is not None
    new = controller_token(controller.stack.api())
    with pytest.raises(ExternalError, match=r"does not take the token in .*Not authorized.*make a new token") as caught:
        server.open_problems()
    assert controller.token not in str(caught.value)
    controller.token = new
    controller.token_file.write_text(new)
    server.open_problems()


def test_an_administrator_who_takes_rights_away_is_told_of(controller: Controller) -> None:
    api = controller.stack.api()
    (role,) = api.role.get(filter={"name": "VCRecovery controller"})
    try:
        api.role.update(roleid=role["roleid"], rules={"api": ["event.get"], "api.mode": 1, "api.access": 1})
        with pytest.raises(ExternalError, match=r'call "problem.get".*let the user\'s role call event.acknowledge, e'):
            controller.server().open_problems()
    finally:
        api.role.update(roleid=role["roleid"], rules={"api": list(METHODS), "api.mode": 1, "api.access": 1})
    controller.server().open_problems()


def test_the_role_has_to_allow_both_actions(controller: Controller) -> None:
    api, server = controller.stack.api(), controller.server()
    _, number = controller.problem()
    (role,) = api.role.get(filter={"name": "VCRecovery controller"})
    both = ["acknowledge_problems", "add_problem_comments"]
    try:
        for one in both:
            rules = {"actions.default_access": 0, "actions": [{"name": n, "status": int(n == one)} for n in both]}
            api.role.update(roleid=role["roleid"], rules=rules)
            with pytest.raises(
                ExternalError, match=r"no permissions to .*let the user's role call .* and add comments"
            ):
                server.acknowledge(number, "hello")
    finally:
        rules = {"actions.default_access": 0, "actions": [{"name": name, "status": 1} for name in both]}
        api.role.update(roleid=role["roleid"], rules=rules)
    server.acknowledge(number, "hello")


def test_a_suppressed_problem_is_not_open(controller: Controller) -> None:
    """As Zabbix does it for hosts in maintenance: it starts no action for them."""
    _, number = controller.problem()
    assert number in controller.server().open_problems()
    # Zabbix looks for maintenances once a minute. What it writes is written here, and not tidied up by it meanwhile.
    controller.stack.stop_server()
    try:
        controller.stack.database.ask(f"insert into event_suppress values (1, {number}, null, 0)")  # noqa: S608
        assert number not in controller.server().open_problems()
    finally:
        controller.stack.database.ask("delete from event_suppress where event_suppressid = 1")
        controller.stack.start_server()
    assert number in controller.server().open_problems()


def test_a_database_that_is_down_is_told_and_the_next_question_is_answered(controller: Controller) -> None:
    server = controller.server()
    server.open_problems()
    controller.stack.stop_database()
    try:
        with pytest.raises(ExternalError, match="Error connecting to database"):
            server.open_problems()
    finally:
        controller.stack.start_database()
    server.open_problems()


def test_many_threads_ask_at_a_time(controller: Controller) -> None:
    _, number = controller.problem()
    server = controller.server()
    answers: list[str] = []

    def ask() -> None:
        event = server.event(number)
        assert event is not None
        answers.append(event.id)

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert answers == [number] * 16


def test_the_token_is_in_no_log(controller: Controller, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    _, number = controller.problem()
    caplog.clear()
    server = controller.server()
    server.event(number)
    server.acknowledge(number, "told")
    assert controller.token not in caplog.text


@dataclass
class Https:
    url: str
    certificate: Path
    other: Path


@pytest.fixture(scope="module")
def https(controller: Controller, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Https]:
    """The API behind TLS, as a web server has it."""
    folder = tmp_path_factory.mktemp("tls")
    for name in ("server", "other"):
        options = ("-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "7")
        names = ("-subj", "/CN=lab", "-addext", "subjectAltName=IP:127.0.0.1")
        files = ("-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem")
        subprocess.run(["openssl", "req", *options, *names, *files], check=True, capture_output=True, timeout=60)

    class Forward(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {n: v for n, v in self.headers.items() if n in ("Content-Type", "Authorization")}
            request = urllib.request.Request(f"{controller.stack.url}{self.path}", body, headers)  # noqa: S310
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                content = answer.read()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Forward) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.pem", folder / "server.key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Https(f"https://127.0.0.1:{server.server_port}", folder / "server.pem", folder / "other.pem")
        server.shutdown()
        thread.join()


def test_tls_is_checked(controller: Controller, https: Https, tmp_path: Path) -> None:
    assert controller.server(url=https.url, ca_file=https.certificate).event("999999") is None
    for settings in ({}, {"ca_file": https.other}):
        with pytest.raises(ExternalError, match=r"certificate of Zabbix at https.* not trusted.*zabbix.api.ca_file"):
            controller.server(url=https.url, **settings).event("999999")
    with pytest.raises(ExternalError, match="ca_file is not there"):
        controller.server(url=https.url, ca_file=tmp_path / "none").event("999999")


def test_what_the_api_answers_is_json(controller: Controller) -> None:
    """What the unit tests' server imitates."""
    question = {"jsonrpc": "2.0", "method": "event.get", "params": {}, "id": 1}
    request = urllib.request.Request(  # noqa: S310
        f"{controller.stack.url}/api_jsonrpc.php",
        json.dumps(question).encode(),
        {"Content-Type": "application/json-rpc"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        refusal = json.loads(answer.read())
    assert refusal["error"]["data"] == "Not authorized."
