"""Probes of real servers: TLS with real certificates, HTTP, commands, and ports that come and go."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.probe import Probes, Result, ask
from vcrecovery.errors import ExternalError
from vcrecovery.plan.probes import Port
from vcrecovery_lab.ports import free_port
from vcrecovery_lab.run import run

from .waiting import wait_for

pytestmark = pytest.mark.lab

HOME = "127.0.0.1"
#: Long enough for any machine; what is expected comes at once.
PATIENCE = 20.0
PROBES = Probes(SystemClock())


def void(_value: object) -> None:
    """For a lambda that only waits."""


def port(**words: Any) -> Port:
    made: Port = TypeAdapter(Port).validate_python(words)
    return made


@contextmanager
def accepting(act: Callable[[socket.socket], None], number: int = 0) -> Iterator[int]:
    """A listener on loopback; each connection is given to `act` in a thread, then closed. Its port."""
    with socket.create_server((HOME, number)) as listener:
        threads: list[threading.Thread] = []

        def serve(sock: socket.socket) -> None:
            with sock, contextlib.suppress(OSError):
                act(sock)

        def accept() -> None:
            while True:
                try:
                    sock, _ = listener.accept()
                except OSError:
                    return
                threads.append(threading.Thread(target=serve, args=(sock,)))
                threads[-1].start()

        acceptor = threading.Thread(target=accept)
        acceptor.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for thread in (acceptor, *threads):
                thread.join(PATIENCE)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CA and what it signed: `good` for two names, and `over`, which has ended; and `own`, signed by itself."""
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(*words: str | Path) -> None:
        run(["openssl", *words], timeout=60)

    new = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-sha256")
    ca = ("-CA", folder / "ca.pem", "-CAkey", folder / "ca.key")
    openssl(*new, "-x509", "-days", "2", "-subj", "/CN=ca", "-keyout", folder / "ca.key", "-out", folder / "ca.pem")
    for name, days, names in (
        ("good", "2", "DNS:www.example.test,DNS:*.shop.example.test"),
        ("over", "0", "DNS:www.example.test"),
    ):
        key, request, extra = (folder / f"{name}.{end}" for end in ("key", "csr", "ext"))
        extra.write_text(f"subjectAltName={names}\n")
        openssl(*new, "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        signing = ("x509", "-req", "-in", request, *ca, "-CAcreateserial", "-extfile", extra)
        openssl(*signing, "-days", days, "-out", folder / f"{name}.pem")
    own = ("-subj", "/CN=www.example.test", "-addext", "subjectAltName=DNS:www.example.test")
    openssl(*new, "-x509", "-days", "2", *own, "-keyout", folder / "own.key", "-out", folder / "own.pem")
    return folder


@contextmanager
def tls_server(certificates: Path, name: str) -> Iterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / f"{name}.pem", certificates / f"{name}.key")

    def act(sock: socket.socket) -> None:
        sock.settimeout(PATIENCE)
        with context.wrap_socket(sock, server_side=True) as stream:
            if stream.recv(4096).startswith(b"GET"):
                stream.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    with accepting(act) as number:
        yield number


def ask_here(asked: Port) -> Result:
    return ask(HOME, asked, PATIENCE)


@pytest.mark.parametrize(
    ("certificate", "name", "said"),
    [
        ("good", "www.example.test", ""),
        ("good", "a.shop.example.test", ""),
        ("good", "other.example.test", "certificate is for www.example.test, *.shop.example.test"),
        ("good", "a.b.shop.example.test", "certificate is for "),
        ("good", "shop.example.test", "certificate is for "),
        ("over", "www.example.test", "certificate: certificate has expired"),
        ("own", "www.example.test", "certificate: self-signed certificate"),
    ],
)
def test_certificates(certificates: Path, certificate: str, name: str, said: str) -> None:
    ca = certificates / "ca.pem"
    with tls_server(certificates, certificate) as number:
        asked = port(tls={"port": number, "name": name, "ca_file": ca})
        if certificate == "over":
            # It ends a moment after it was made.
            wait_for(lambda: not ask_here(asked).ok, "the end of the certificate")
        result = ask_here(asked)
        assert result.reason.startswith(said) if said else result.ok, result
        assert result.reached
        assert str(result).startswith(f"{HOME}:{number} tls")
        assert ask_here(port(tls={"port": number, "name": name, "verify": False})).ok
        https = port(http={"port": number, "tls": True, "host": name, "ca_file": ca, "status": [204]})
        assert ask_here(https).reason == result.reason


def test_a_certificate_that_vouches_for_itself(certificates: Path) -> None:
    with tls_server(certificates, "own") as number:
        assert ask_here(port(tls={"port": number, "name": "www.example.test", "ca_file": certificates / "own.pem"})).ok
        trusted_by_nobody = ask_here(port(tls={"port": number, "name": "www.example.test"}))
        assert trusted_by_nobody.reason == "certificate: self-signed certificate"


def test_a_ca_file_that_is_none(certificates: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with tls_server(certificates, "good") as number:
        for file in ("none", "empty"):
            result = ask_here(port(tls={"port": number, "name": "www.example.test", "ca_file": tmp_path / file}))
            assert f"{tmp_path / file} holds no usable certificate" in str(result)


def test_what_is_no_tls() -> None:
    with accepting(lambda sock: sock.sendall(b"220 mail ready\r\n")) as number:
        result = ask_here(port(tls={"port": number, "name": "www.example.test"}))
    assert result.reached
    assert "no TLS: " in str(result) or "connection reset" in str(result), result


def test_a_server_that_says_nothing_costs_no_more_than_its_timeout() -> None:
    over = threading.Event()
    with accepting(lambda _sock: void(over.wait(PATIENCE))) as number:
        asked = [
            port(tls={"port": number, "name": "www.example.test"}, timeout="1s"),
            port(http={"port": number}, timeout="1s"),
            port(command=["sh", "-c", "sleep 60", "{address}"], timeout="1s"),
        ]
        began = time.monotonic()
        results = PROBES.ask_all([(HOME, one) for one in asked], 0.5)
        took = time.monotonic() - began
        over.set()
    assert [result.reached for result in results] == [True, True, False]
    assert [result.reason for result in results[:2]] == ["no answer within 1 s"] * 2
    assert "did not finish within 1 s" in results[2].reason
    assert took < PATIENCE


def test_a_server_that_drips() -> None:
    over = threading.Event()

    def drip(sock: socket.socket) -> None:
        while not over.wait(0.05):
            sock.sendall(b"H")

    with accepting(drip) as number:
        result = ask(HOME, port(http={"port": number}), 0.5)
        over.set()
    assert result.reason == "no answer within 0.5 s"


class Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        host = (self.headers["Host"] or "").partition(":")[0]
        status = {"/": 200, "/moved": 302, "/health?deep=1": 204, "/broken": 503, "/named": 200}.get(self.path, 404)
        self.send_response(421 if self.path == "/named" and host != "www.example.test" else status)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def web() -> Iterator[int]:
    with ThreadingHTTPServer((HOME, 0), Pages) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({}, ""),
        ({"path": "/moved"}, ""),
        ({"path": "/moved", "status": [200]}, "status 302, not 200"),
        ({"path": "/health?deep=1", "status": [200, 204]}, ""),
        ({"path": "/broken"}, "status 503, not 200 to 399"),
        ({"path": "/broken", "status": [503]}, ""),
        ({"path": "/named"}, "status 421, not 200 to 399"),
        ({"path": "/named", "host": "www.example.test"}, ""),
    ],
)
def test_http(web: int, words: dict[str, Any], said: str) -> None:
    result = ask_here(port(http={"port": web, **words}))
    assert result.reason == said
    assert result.reached
    assert str(result).startswith(f"{HOME}:{web} http {words.get('path', '/')}")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "hangs up without an answer"),
        (b"SSH-2.0-x\r\n", "answers, but not in HTTP"),
        (b"HTTP/1.1 2", "not in HTTP"),
    ],
)
def test_what_is_no_http(answer: bytes, said: str) -> None:
    def act(sock: socket.socket) -> None:
        sock.recv(4096)
        sock.sendall(answer)

    with accepting(act) as number:
        assert said in str(ask_here(port(http={"port": number})))


def test_what_lives_is_not_always_well(web: int) -> None:
    ports = [port(tcp=web), port(http={"port": web, "path": "/broken"}), port(tcp=free_port())]
    assert PROBES.answering(HOME, ports, PATIENCE) == [f"{HOME}:{web}"]
    assert PROBES.alive(HOME, ports, PATIENCE) == [f"{HOME}:{web}", f"{HOME}:{web} http /broken"]


def test_commands(web: int, tmp_path: Path) -> None:
    script = tmp_path / "check"
    script.write_text('#!/bin/sh\n[ "$1" = 127.0.0.1 ] || { echo "asked for $1" >&2; exit 2; }\n')
    script.chmod(0o755)
    asked = port(command=[str(script), "{address}"])
    assert ask_here(asked).ok
    result = ask("10.1.2.3", asked, PATIENCE)
    assert "10.1.2.3 check: " in str(result)
    assert "status 2: asked for 10.1.2.3" in str(result)
    assert not result.reached
    # That says nothing about who would have answered.
    with pytest.raises(ExternalError, match=r"127\.0\.0\.1 none cannot be asked: .*/none is not installed"):
        ask_here(port(command=[str(tmp_path / "none"), "{address}"]))


def test_what_answers_slowly_lives(tmp_path: Path) -> None:
    """A failure is confirmed in half a second; who has accepted the connection by then has longer to answer."""

    def act(sock: socket.socket) -> None:
        sock.recv(4096)
        time.sleep(0.7)
        sock.sendall(b"HTTP/1.1 200 OK\r\n\r\n")

    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nsleep 0.7\n")
    slow.chmod(0o755)
    with accepting(act) as number:
        ports = [port(http={"port": number}), port(command=[str(slow), "{address}"])]
        assert PROBES.answering(HOME, ports, 0.3) == [f"{HOME}:{number} http /", f"{HOME} slow"]
        assert [result.ok for result in PROBES.ask_patiently([(HOME, one) for one in ports], 0.3)] == [False, False]


def test_what_accepts_and_never_answers_is_given_up() -> None:
    over = threading.Event()
    with accepting(lambda _sock: void(over.wait(PATIENCE))) as silent:
        (result,) = PROBES.ask_all([(HOME, port(http={"port": silent}, timeout="1s"))], 0.3)
        over.set()
    assert (result.reason, result.reached) == ("no answer within 1 s", True)


def test_all_are_asked_at_once(web: int) -> None:
    over = threading.Event()
    with accepting(lambda _sock: void(over.wait(PATIENCE))) as silent:
        slow = [port(http={"port": silent}) for _ in range(30)]
        began = time.monotonic()
        results = PROBES.ask_patiently([(HOME, one) for one in (port(tcp=web), *slow, port(tcp=free_port()))], 2.0)
        took = time.monotonic() - began
        over.set()
    assert results[0].ok
    assert [result.reason for result in results[1:-1]] == ["no answer within 2 s"] * 30
    assert results[-1].reason == "connection refused"
    assert not results[-1].reached
    # One after the other they would take a minute.
    assert took < 40


# -- waiting -------------------------------------------------------------------------------------------------------


class Looks:
    """A clock that stands still but for the pauses between two looks, in which something may be done."""

    def __init__(self, between: Callable[[int], None]) -> None:
        self.looks = 0
        self._between = between
        self._now = 0.0

    def now(self) -> float:
        return self._now

    def steady(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self.looks += 1
        self._now += seconds
        self._between(self.looks)


class Door:
    """A port that is opened and closed by hand."""

    def __init__(self) -> None:
        self.number = free_port()
        self._open = contextlib.ExitStack()

    def open(self) -> None:
        self._open.enter_context(accepting(lambda _sock: None, self.number))

    def close(self) -> None:
        self._open.close()


def test_a_port_that_flaps_is_waited_for_until_it_stays() -> None:
    door = Door()

    def flap(looks: int) -> None:
        # Open for one look, closed for one, three times; then open.
        if looks in (1, 3, 5, 7):
            door.open()
        elif looks in (2, 4, 6):
            door.close()

    clock = Looks(flap)
    try:
        (result,) = Probes(clock).wait_for_all([(HOME, port(tcp=door.number))], timeout=60.0, stable_for=0.3)
    finally:
        door.close()
    assert result.ok
    assert clock.looks > 7, "DNS would have followed a port that closed again"


def test_a_port_that_never_stays_is_no_port() -> None:
    door = Door()

    def flap(looks: int) -> None:
        (door.open if looks % 2 else door.close)()

    try:
        (result,) = Probes(Looks(flap)).wait_for_all([(HOME, port(tcp=door.number))], timeout=1.0, stable_for=0.3)
    finally:
        door.close()
    assert "connection refused; it answered and ceased to" in str(result)


def test_the_ports_have_to_be_open_together(web: int) -> None:
    """One that was there and is gone again when the last one comes."""
    early, late = Door(), Door()

    def change(looks: int) -> None:
        if looks == 12:
            early.close()
            late.open()
        elif looks == 15:
            early.open()

    early.open()
    clock = Looks(change)
    targets = [(HOME, port(tcp=door.number)) for door in (early, late)]
    try:
        results = Probes(clock).wait_for_all(targets, timeout=60.0, stable_for=0.1)
    finally:
        early.close()
        late.close()
    assert all(result.ok for result in results)
    assert clock.looks > 15


def test_a_command_is_asked_when_the_ports_are_open(tmp_path: Path) -> None:
    door = Door()
    log = tmp_path / "log"
    asked = [port(tcp=door.number), port(command=["sh", "-c", f"echo asked >>{log}", "{address}"])]
    targets = [(HOME, one) for one in asked]
    results = Probes(SystemClock()).wait_for_all(targets, timeout=0.2, stable_for=0.1)
    assert [str(result) for result in results] == [
        f"{HOME}:{door.number}: connection refused",
        f"{HOME} sh: not asked: other ports do not answer",
    ]
    assert not log.exists()
    door.open()
    try:
        probes = Probes(SystemClock())
        assert all(result.ok for result in probes.wait_for_all(targets, timeout=PATIENCE, stable_for=0.1))
    finally:
        door.close()
    assert log.exists()


def test_a_hanging_command_is_ended_with_its_children(tmp_path: Path) -> None:
    script = tmp_path / "check"
    script.write_text(f"#!/bin/sh\nsleep 300 &\necho $! >{tmp_path}/child\nwait\n")
    script.chmod(0o755)
    assert "did not finish" in str(ask(HOME, port(command=[str(script), "{address}"]), 3.0))
    child = Path(f"/proc/{(tmp_path / 'child').read_text().strip()}/stat")

    def has_ended() -> bool:
        return not child.exists() or child.read_text().rpartition(")")[2].split()[0] == "Z"

    wait_for(has_ended, "the end of what the command started", PATIENCE)
