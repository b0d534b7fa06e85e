"""The client of Zabbix's API against a server that does everything wrong: what a user is told."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from vcrecovery.drivers import zabbix
from vcrecovery.drivers.zabbix import NoSuchEventError, ZabbixServer
from vcrecovery.errors import ExternalError
from vcrecovery.plan.monitoring import ZabbixApi

TOKEN = "0123456789abcdef" * 4
Answer = Callable[[BaseHTTPRequestHandler, dict[str, Any]], None]


def send(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200, **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def says(content: Any) -> Answer:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return lambda handler, _: send(handler, body)


def result(content: Any) -> Answer:
    return says({"jsonrpc": "2.0", "result": content, "id": 1})


def error(code: int, message: str, data: str) -> Answer:
    return says({"jsonrpc": "2.0", "error": {"code": code, "message": message, "data": data}, "id": 1})


EVENT = {
    "eventid": "7", "name": "hv1 has failed", "clock": "1700000000", "ns": "250000000", "value": "1", "r_eventid": "0",
    "acknowledged": "0", "tags": [{"tag": "vcr", "value": "recover"}], "hosts": [{"host": "hv1"}], "acknowledges": [],
}  # fmt: skip


@dataclass
class Fake:
    """Speaks JSON-RPC. `answer` is for every question but that for the version."""

    url: str = ""
    version: Answer = field(default_factory=lambda: result("7.0.9"))
    answer: Answer = field(default_factory=lambda: result([]))
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def fake() -> Iterator[Fake]:
    state = Fake()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state.asked.append(question)
            state.headers.append(dict(self.headers.items()))
            first = question["method"] == "apiinfo.version"
            try:
                (state.version if first else state.answer)(self, question)
            except ConnectionError:
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        state.url = f"http://127.0.0.1:{server.server_port}/zabbix"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield state
        finally:
            state.over.set()
            server.shutdown()
            thread.join()


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text(f"{TOKEN}\n")
    return file


@pytest.fixture
def server(fake: Fake, token_file: Path) -> ZabbixServer:
    return ZabbixServer(ZabbixApi(url=fake.url, token_file=token_file, ca_file=None), timeout=30.0)


def told(call: Callable[[], object]) -> str:
    """The one line for the user."""
    with pytest.raises(ExternalError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    assert TOKEN not in text
    assert len(text) < 700
    return text


def test_an_event_is_what_the_api_says(server: ZabbixServer, fake: Fake) -> None:
    fake.answer = result([EVENT])
    event = server.event("7")
    assert event is not None
    assert (event.id, event.at, event.is_problem, event.hosts) == ("7", 1700000000.25, True, ("hv1",))
    assert fake.headers[-1]["Authorization"] == f"Bearer {TOKEN}"
    assert "auth" not in fake.asked[-1]
    assert fake.asked[-1]["params"]["eventids"] == ["7"]


@pytest.mark.parametrize(
    "change", [{"value": "0"}, {"r_eventid": "8"}], ids=["the event of a recovery", "a problem that is over"]
)
def test_what_is_over_is_no_problem(server: ZabbixServer, fake: Fake, change: dict[str, str]) -> None:
    fake.answer = result([{**EVENT, **change}])
    event = server.event("7")
    assert event is not None
    assert not event.is_problem


def test_version_6_0_takes_the_token_in_the_question(server: ZabbixServer, fake: Fake) -> None:
    fake.version, fake.answer = result("6.0.14"), result([EVENT])
    server.event("7")
    assert fake.asked[-1]["auth"] == TOKEN
    assert "Authorization" not in fake.headers[-1]
    assert fake.asked[-1]["params"]["select_acknowledges"]


def test_an_older_version_is_refused(server: ZabbixServer, fake: Fake) -> None:
    fake.version = result("5.0.1")
    assert "has version 5.0.1; 6.0 or newer is needed" in told(server.open_problems)


def test_the_version_is_asked_once_and_again_after_a_failure(server: ZabbixServer, fake: Fake) -> None:
    def methods() -> list[str]:
        found = [question["method"] for question in fake.asked]
        fake.asked.clear()
        return found

    server.open_problems()
    server.open_problems()
    assert methods() == ["apiinfo.version", "problem.get", "problem.get"]
    fake.answer = error(-32602, "Invalid params.", "Not authorized.")
    told(server.open_problems)
    fake.answer = result([])
    methods()
    server.open_problems()
    assert methods() == ["apiinfo.version", "problem.get"]


def test_once_the_file_has_another_token_every_question_brings_it(
    server: ZabbixServer, fake: Fake, token_file: Path
) -> None:
    together = threading.Barrier(3)

    def meet(handler: BaseHTTPRequestHandler, question: dict[str, Any]) -> None:
        together.wait(30)
        result([])(handler, question)

    fake.answer = meet
    threads = [threading.Thread(target=server.open_problems) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    def one_token_only(handler: BaseHTTPRequestHandler, question: dict[str, Any]) -> None:
        good = handler.headers["Authorization"] == "Bearer new"
        (result([]) if good else error(-32602, "Invalid params.", "Not authorized."))(handler, question)

    fake.answer = one_token_only
    token_file.write_text("new")
    for _ in range(4):
        assert server.open_problems() == []


GARBAGE = {
    "nothing": b"",
    "a page": b"<html><body>It works!</body></html>" * 100,
    "bytes": bytes(range(256)),
    "a number": b"7",
    "null": b"null",
    "a list": b"[]",
    "no result": b"{}",
    "half an answer": b'{"jsonrpc": "2.0", "result": [{"eventid"',
    "an error that is none": b'{"error": 3}',
    "an error of another kind": b'{"error": {"foo": "bar"}}',
    "a word for a list": b'{"result": "hello"}',
    "a list of words": b'{"result": ["hello"]}',
    "an event without anything": b'{"result": [{"eventid": "7"}]}',
    "times that are no numbers": json.dumps({"result": [{**EVENT, "clock": "now"}]}).encode(),
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_is_told_to_be_garbage(server: ZabbixServer, fake: Fake, garbage: bytes) -> None:
    fake.answer = says(garbage)
    assert "gives an answer that is not of its API" in told(lambda: server.event("7"))
    fake.version = says(garbage)
    assert "gives an answer that is not of its API" in told(server.open_problems)
    assert "gives an answer that is not of its API" in told(lambda: server.acknowledge("7", "x"))


def test_an_answer_without_an_end_is_not_read_to_its_end(
    server: ZabbixServer, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zabbix, "LARGEST_ANSWER", 1 << 20)
    sent = 0

    def flood(handler: BaseHTTPRequestHandler, _: object) -> None:
        nonlocal sent
        handler.send_response(200)
        handler.end_headers()
        while sent < 1 << 30:
            sent += handler.wfile.write(b" " * (64 << 10))

    fake.answer = flood
    assert "not of its API" in told(server.open_problems)
    assert sent < 64 << 20


@pytest.mark.parametrize("status", [400, 401, 403, 404, 412, 500, 502, 503])
def test_a_web_server_that_refuses_is_quoted(server: ZabbixServer, fake: Fake, status: int) -> None:
    fake.answer = lambda handler, _: send(handler, b"<html>oh no</html>" * 1000, status)
    text = told(server.open_problems)
    assert f"answers {status}" in text
    assert "correct zabbix.api.url, or look into the log there" in text


def test_a_redirection_is_told_and_not_followed(server: ZabbixServer, fake: Fake) -> None:
    fake.version = lambda handler, _: send(handler, b"", 301, Location="https://zabbix.example.net/api_jsonrpc.php")
    assert "answers that it is at https://zabbix.example.net/api_jsonrpc.php; correct zabbix.api.url" in told(
        server.open_problems
    )
    assert len(fake.asked) == 1


def silent(handler: BaseHTTPRequestHandler, fake: Fake) -> None:
    fake.over.wait(60)


def drip_header(handler: BaseHTTPRequestHandler, fake: Fake) -> None:
    for piece in (b"HTTP/1.0 200 OK\r\n", b"X-Slow: ", *([b"x"] * 1000)):
        handler.wfile.write(piece)
        if fake.over.wait(0.1):
            return


def drip_body(handler: BaseHTTPRequestHandler, fake: Fake) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    for _ in range(1000):
        handler.wfile.write(b" ")
        if fake.over.wait(0.1):
            return


@pytest.mark.parametrize("manner", [silent, drip_header, drip_body])
def test_an_answer_that_does_not_come_is_not_waited_for(
    fake: Fake, token_file: Path, manner: Callable[[BaseHTTPRequestHandler, Fake], None]
) -> None:
    server = ZabbixServer(ZabbixApi(url=fake.url, token_file=token_file, ca_file=None), timeout=1.0)
    fake.version = lambda handler, _: manner(handler, fake)
    started = time.monotonic()
    assert "does not answer: no answer in time" in told(server.open_problems)
    assert time.monotonic() - started < 20
    fake.version = result("7.0.9")
    assert (
        ZabbixServer(ZabbixApi(url=fake.url, token_file=token_file, ca_file=None), timeout=30.0).open_problems() == []
    )


def test_a_connection_that_breaks_off_is_told(server: ZabbixServer, fake: Fake) -> None:
    def break_off(handler: BaseHTTPRequestHandler, _: object) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b"{")
        handler.close_connection = True

    fake.answer = break_off
    assert "does not answer" in told(server.open_problems)


def test_nobody_there(token_file: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        text = told(ZabbixServer(ZabbixApi(url=url, token_file=token_file, ca_file=None)).open_problems)
    assert "does not answer: Connection refused; start it, or correct zabbix.api.url" in text


def test_an_address_that_is_none(token_file: Path) -> None:
    for url in ("http://", "http://:0", "http://zabbix..example/", "https://[::1"):
        told(ZabbixServer(ZabbixApi(url=url, token_file=token_file, ca_file=None)).open_problems)


def test_tls_where_there_is_none(fake: Fake, token_file: Path) -> None:
    api = ZabbixApi(url=fake.url.replace("http:", "https:"), token_file=token_file, ca_file=None)
    assert "Zabbix at https://127.0.0.1" in told(ZabbixServer(api, timeout=30.0).open_problems)


def test_a_token_that_is_wrong(server: ZabbixServer, fake: Fake, token_file: Path) -> None:
    for code, message, data in (
        (-32602, "Invalid params.", "Not authorised."),
        (-32602, "Invalid params.", "Not authorized."),
        (-32602, "Invalid params.", "Session terminated, re-login, please."),
        (-32500, "Application error.", "API token expired."),
    ):
        fake.answer = error(code, message, data)
        text = told(server.open_problems)
        assert f"does not take the token in {token_file}: {message} {data}; make a new token" in text


def test_an_event_that_is_not_there(server: ZabbixServer, fake: Fake) -> None:
    assert server.event("7") is None
    fake.answer = error(-32500, "Application error.", "No permissions to referred object or it does not exist!")
    with pytest.raises(NoSuchEventError):
        server.acknowledge("7", "x")
    fake.asked.clear()
    assert server.event("9" * 20) is None
    assert fake.asked == []


def test_another_error_is_quoted_in_part(server: ZabbixServer, fake: Fake) -> None:
    fake.answer = error(-32603, "Internal error.", "Error\nconnecting to database. " + "x" * 9999)
    assert "answers with an error: Internal error. Error connecting to database." in told(server.open_problems)


@pytest.mark.parametrize(
    ("content", "mode", "reason"),
    [
        (None, 0, "cannot be read: .*No such file or directory; put the token there, mode 0600"),
        ("abc", 0o644, "can be read by others: .* has mode 0644; chmod 600"),
        ("abc", 0o640, "can be read by others: .* has mode 0640; chmod 600"),
        ("", 0o600, "holds no API token"),
        ("abc\ndef", 0o600, "holds no API token"),
        ("abc\x00def", 0o600, "holds no API token"),
        ("grüße", 0o600, "cannot be read: .* it is no text"),
    ],
)
def test_the_file_of_the_token(
    server: ZabbixServer, fake: Fake, token_file: Path, content: str | None, mode: int, reason: str
) -> None:
    if content is None:
        token_file.unlink()
    else:
        token_file.write_text(content)
        token_file.chmod(mode)
    with pytest.raises(ExternalError, match=reason) as caught:
        server.open_problems()
    assert "abc" not in str(caught.value).replace(str(token_file), "")
    # It may come later: the watcher tries again.
    token_file.unlink(missing_ok=True)
    token_file.touch(mode=0o600)
    token_file.write_text(TOKEN)
    assert server.open_problems() == []


def test_a_netrc_and_a_proxy_of_the_environment_change_nothing(
    server: ZabbixServer, fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login someone password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    server.open_problems()
    assert fake.headers[-1]["Authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize("version", ["6.0.14", "7.0.9"])
def test_the_token_is_in_no_log_whatever_the_level(
    server: ZabbixServer, fake: Fake, caplog: pytest.LogCaptureFixture, version: str
) -> None:
    caplog.set_level("DEBUG")
    fake.version = result(version)
    server.open_problems()
    fake.answer = says(b"garbage")
    told(server.open_problems)
    assert fake.asked
    assert TOKEN not in caplog.text


def test_no_io_before_the_first_question(fake: Fake, tmp_path: Path) -> None:
    """Neither the server nor the token need be there when a controller starts."""
    token_file = tmp_path / "later"
    server = ZabbixServer(ZabbixApi(url=fake.url, token_file=token_file, ca_file=None), timeout=30.0)
    assert fake.asked == []
    assert str(token_file) in told(server.open_problems)
    token_file.touch(mode=0o600)
    token_file.write_text(TOKEN)
    assert server.open_problems() == []
    assert fake.headers[-1]["Authorization"] == f"Bearer {TOKEN}"
