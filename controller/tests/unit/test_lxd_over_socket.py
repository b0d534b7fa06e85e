"""The LXD driver on a socket: few connections for many calls, and new ones when the server has come back.

The server is simulated: the benchmark's, which answers as LXD does.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from recovery_bench.overhead_lxd import Connection, Server
from vcrecovery.core.episode import Episode, Request, Step
from vcrecovery.core.evidence import Confirmation
from vcrecovery.drivers.certificate import keep_certificate
from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.lxd import Instance, LxdServer, TryAgainError, connection, unix_socket
from vcrecovery.drivers.lxd.connection import OverHttps
from vcrecovery.drivers.lxd.unix_socket import UnixSocketSession
from vcrecovery.errors import ExternalError, RefusedError
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.failover_steps import FailoverSteps
from vcrecovery.operations.preflight import check_outside
from vcrecovery.plan.load import load_plan
from vcrecovery.standby.container import ACTIVE, EPOCH_KEY, READY_KEY, ROLE_KEY, STANDBY, stand_by_again
from vcrecovery.standby.keeper import StandbyKeeper
from vcrecovery.store.journal import Journal

NAMES = [f"s{number}" for number in range(30)]
#: Of a standby; on loopback.
ADDRESS = "127.20.0.1"


class Serving:
    """What has happened at one server."""

    def __init__(self) -> None:
        self.connections: list[asyncio.BaseTransport] = []
        #: Verbs and places.
        self.asked: list[str] = []


@contextmanager
def serving(place: Path, refusal: str = "", templates: int = 404) -> Iterator[Serving]:
    """`refusal`: what it says to whoever wants a network; `templates`: its status for who wants one of these."""
    made = Serving()

    class Noting(Server):
        def answer(self, verb: str, path: str, headers: str, body: bytes) -> tuple[int, dict[str, Any], str]:
            made.asked.append(f"{verb} {path}")
            if refusal and (verb, path) == ("POST", "/1.0/networks"):
                return 500, {"type": "error", "error": refusal, "error_code": 500}, ""
            if path.endswith("/metadata/templates"):
                return templates, {"type": "error", "error": "not for you", "error_code": templates}, ""
            return super().answer(verb, path, headers, body)

    containers = Noting(NAMES)

    class Counted(Connection):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            made.connections.append(transport)
            super().connection_made(transport)

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        stop.append(lambda: loop.call_soon_threadsafe(ended.set))
        server = await loop.create_unix_server(lambda: Counted(containers), str(place))
        ready.set()
        await ended.wait()
        server.close()
        for transport in made.connections:
            assert isinstance(transport, asyncio.Transport)
            transport.abort()
        await asyncio.sleep(0)

    stop: list[Callable[[], object]] = []
    ready = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(60)
    try:
        yield made
    finally:
        stop[0]()
        thread.join(60)
        place.unlink(missing_ok=True)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "lxd"


def test_one_connection_for_calls_that_follow_each_other(place: Path) -> None:
    lxd = LxdServer("sec1", place, SystemClock())
    with serving(place) as server:
        for name in NAMES:
            lxd.start(name, 10)
            found = lxd.get(name)
            assert found is not None
            assert found.running
        assert len(server.connections) == 1
        assert lxd.size().cores == 64


def test_threads_share_the_connections(place: Path) -> None:
    lxd = LxdServer("sec1", place, SystemClock())
    found: list[str] = []

    def work(name: str) -> None:
        for _ in range(10):
            instance = lxd.get(name)
            assert instance is not None
        found.append(name)

    with serving(place) as server:
        threads = [threading.Thread(target=work, args=(name,)) for name in NAMES]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert sorted(found) == sorted(NAMES)
        assert len(server.connections) <= len(NAMES) + 1


def test_a_server_that_was_away_is_used_again(place: Path) -> None:
    lxd = LxdServer("sec1", place, SystemClock())
    with serving(place):
        assert lxd.get("s1") is not None
    with pytest.raises(ExternalError, match="no such socket"):
        lxd.get("s1")
    with serving(place):
        assert lxd.get("s1") is not None
    # This time nobody has looked meanwhile.
    with serving(place):
        assert lxd.get("s1") is not None


def test_a_name_server_in_the_way_of_the_standbys_network_is_named(place: Path) -> None:
    lxd = LxdServer("sec1", place, SystemClock())
    # As LXD 5.0 says it where Debian's BIND has taken port 53 of the bridge, once that had its address.
    refusal = (
        "The DNS and DHCP service exited prematurely: Process exited with non-zero value 2 "
        '("dnsmasq: failed to create listening socket for 10.20.0.1: Address already in use")'
    )
    with serving(place, refusal), pytest.raises(ExternalError) as error:
        lxd.create_network("vcr0", "10.20.0.1/24")
    assert refusal in error.value.message
    assert error.value.hint == (
        "a name server of this machine has taken port 53 of the bridge: have it leave that address alone "
        "(BIND: `listen-on { !10.20.0.1; any; };` in its options)"
    )


def test_a_write_on_an_older_state_is_refused(place: Path) -> None:
    lxd = LxdServer("sec1", place, SystemClock())
    with serving(place):
        read = lxd.get("s1")
        assert read is not None
        lxd.configure(read, {"user.some": "1"})
        with pytest.raises(TryAgainError):
            lxd.configure(read, {"user.some": "2"})
        assert lxd.get("s99") is None


def test_a_server_that_hangs_holds_all_up_for_the_time_of_one(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CALL_TIMEOUT", 1.0)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen(128)
        lxd = LxdServer("sec1", place, SystemClock())

        def ask() -> None:
            with pytest.raises(ExternalError, match="does not answer"):
                lxd.get("web")

        threads = [threading.Thread(target=ask) for _ in range(40)]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # One after the other they would take 40 s.
        assert time.monotonic() - began < 20


@pytest.fixture
def port() -> Iterator[int]:
    """Of the standby, which answers; its primary's is closed."""
    with socket.socket() as listener:
        listener.bind((ADDRESS, 0))
        listener.listen()
        yield listener.getsockname()[1]


def world_of(place: Path, port: int) -> Environment:
    """A controller that has just been started, for service s1."""
    plan = {
        "version": 1,
        "state_dir": str(place.parent / "state"),
        "hypervisors": {"hv1": {"uri": f"qemu:///session?socket={place.parent}/none"}},
        "secondaries": {
            "sec1": {
                "lxd": str(place),
                "network": {"bridge": "vcr0", "address": "127.20.255.254/16"},
                "receiver": {"address": "127.0.0.1"},
            }
        },
        "services": {
            "s1": {
                "primary": {
                    "hypervisor": "hv1",
                    "uuid": "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0001",
                    "address": "127.0.0.2",
                },
                "standby": {"secondary": "sec1", "address": ADDRESS},
                "ports": [port],
                "timeouts": {"stable_for": "1ms"},
            }
        },
    }
    file = place.parent / "plan.yml"
    file.write_text(yaml.safe_dump(plan))
    return Environment(load_plan(file))


def confirmed(acts: FailoverSteps) -> Confirmation:
    found = acts.carry_out(Step.CONFIRM, EPISODE)
    assert isinstance(found, Confirmation)
    return found


def outside(place: Path, port: int) -> FailoverSteps:
    return FailoverSteps(world_of(place, port), "s1")


EPISODE = Episode(1, "s1", 3, "test", Request(primary_is_down=True), 0.0)


def test_a_failover_reads_the_container_once(place: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vcrecovery.operations.steps.subject.JUST_NOW", 600.0)
    with serving(place) as server:
        acts = outside(place, port)
        assert acts.epoch_elsewhere() == 0
        assert confirmed(acts).standby_problem == ""
        acts.carry_out(Step.START, EPISODE)
        acts.carry_out(Step.PROBE, EPISODE)
        own = [words for words in server.asked if words.endswith("/s1")]
        # Before the episode, and when it was booted, which alone would not show that it runs.
        assert own == ["GET /1.0/instances/s1", "PATCH /1.0/instances/s1", "GET /1.0/instances/s1"]
        # A controller that goes on later looks at it.
        outside(place, port).carry_out(Step.PROBE, EPISODE)
        assert server.asked[-1] == "GET /1.0/instances/s1"


#: As Debian's 3.2.7-1+deb12u6 says it (and 3.4.3, upstream's issue 910), whatever is to be deleted.
_RSYNC = """\
#!/bin/sh
case " $* " in *" --delete-missing-args "*) ;; *) exit 0 ;; esac
read -r path
echo "invalid file mode 00 for $path [Receiver]" >&2
echo "rsync error: protocol incompatibility (code 2) at flist.c(874) [Receiver=3.2.7]" >&2
exit 2
"""


@pytest.mark.parametrize("refuses", [False, True])
def test_plan_check_finds_an_rsync_that_takes_no_deletions(
    place: Path, port: int, refuses: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if refuses:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin/rsync").write_text(_RSYNC)
        (tmp_path / "bin/rsync").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    with serving(place):
        problems = check_outside(world_of(place, port))
    found = [line for line in problems if line.startswith("secondaries.sec1: this machine's rsync takes no deletions")]
    assert len(found) == int(refuses)
    for line in found:
        assert "protocol incompatibility" in line
        assert line.endswith("install a newer one, Debian 12's from bookworm-security")


@pytest.mark.parametrize("just_now", [0.0, 600.0])
def test_what_was_changed_since_the_confirmation_is_seen(
    place: Path, port: int, just_now: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vcrecovery.operations.steps.subject.JUST_NOW", just_now)
    lxd = LxdServer("sec1", place, SystemClock())
    with serving(place):
        for key, value in (("user.other", "1"), (EPOCH_KEY, "4")):
            acts = outside(place, port)
            acts.epoch_elsewhere()
            assert confirmed(acts).standby_problem == ""
            before = lxd.get("s1")
            assert before is not None
            lxd.configure(before, {key: value, ROLE_KEY: STANDBY})
            if key == EPOCH_KEY:
                # Another controller has failed it over meanwhile.
                with pytest.raises(RefusedError, match="belongs to epoch 4"):
                    acts.carry_out(Step.START, EPISODE)
            else:
                acts.carry_out(Step.START, EPISODE)
                found = lxd.get("s1")
                assert found is not None
                assert (found.running, found.config[ROLE_KEY], found.config[key]) == (True, ACTIVE, value)
                lxd.configure(found, {EPOCH_KEY: "", ROLE_KEY: STANDBY})


@pytest.fixture
def writes_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """LXD, which writes a key of its own right after each of the first readings, as for a moment after a stop."""
    read, left = LxdServer.get, iter("321")

    def get(lxd: LxdServer, name: str) -> Instance | None:
        found = read(lxd, name)
        if found is not None and (number := next(left, "")):
            lxd.configure(found, {"volatile.number": number})
        return found

    monkeypatch.setattr(LxdServer, "get", get)


@pytest.mark.usefixtures("writes_its_own")
def test_what_lxd_writes_itself_does_not_keep_a_container_from_standing_by_again(place: Path) -> None:
    lxd = LxdServer("sec1", place, SystemClock())
    with serving(place):
        stand_by_again(lxd, "s1")
        found = lxd.get("s1")
        assert found is not None
        assert (found.config[ROLE_KEY], found.config["volatile.number"]) == (STANDBY, "1")


@pytest.mark.usefixtures("writes_its_own")
def test_what_lxd_writes_itself_does_not_keep_a_failover_from_its_standby(place: Path, port: int) -> None:
    with serving(place):
        outside(place, port).carry_out(Step.START, EPISODE)
        found = LxdServer("sec1", place, SystemClock()).get("s1")
        assert found is not None
        assert (found.running, found.config[ROLE_KEY], found.config[EPOCH_KEY]) == (True, ACTIVE, "3")


def changed_between(monkeypatch: pytest.MonkeyPatch, change: Callable[[LxdServer, Instance], None]) -> None:
    """After the first reading of a container."""
    read, left = LxdServer.get, iter([change])

    def get(lxd: LxdServer, name: str) -> Instance | None:
        found = read(lxd, name)
        if found is not None and (act := next(left, None)):
            act(lxd, found)
        return found

    monkeypatch.setattr(LxdServer, "get", get)


def test_a_standby_that_another_controller_claims_meanwhile_stays_claimed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lxd = LxdServer("sec1", place, SystemClock())
    changed_between(monkeypatch, lambda lxd, found: lxd.configure(found, {ROLE_KEY: ACTIVE, EPOCH_KEY: "4"}))
    with serving(place):
        with pytest.raises(ExternalError, match="another controller has just claimed container s1"):
            stand_by_again(lxd, "s1")
        found = lxd.get("s1")
        assert found is not None
        assert (found.config[ROLE_KEY], found.config[EPOCH_KEY]) == (ACTIVE, "4")


def test_one_that_is_started_meanwhile_is_not_put_back(place: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    restored: list[str] = []
    monkeypatch.setattr(LxdServer, "snapshots", lambda *_words: ["vcr-20260101T000000Z"])
    monkeypatch.setattr(LxdServer, "restore", lambda _lxd, name, *_words: restored.append(name))
    changed_between(monkeypatch, lambda lxd, found: lxd.start(found.name, 30))
    episode = replace(EPISODE, request=Request(primary_is_down=True, restore_point="latest"))
    with serving(place):
        with pytest.raises(ExternalError, match="a restore would throw away what it has written"):
            outside(place, port).carry_out(Step.RESTORE, episode)
        found = LxdServer("sec1", place, SystemClock()).get("s1")
        assert found is not None
        assert (restored, found.running, found.config[ROLE_KEY]) == ([], True, STANDBY)


@pytest.mark.parametrize("status", [403, 404, 500])
def test_a_template_that_lxd_does_not_hand_out_is_as_one_that_is_not_there(place: Path, status: int) -> None:
    with serving(place, templates=status):
        assert LxdServer("sec1", place, SystemClock()).template("s1", "heartbeat") is None


class BusyServer:
    """It is at work on the container itself, or has just been."""

    def __init__(self) -> None:
        config = {ROLE_KEY: STANDBY, READY_KEY: "true"}
        self.found = Instance("s1", running=True, status="Running", config=config, devices={})

    def get(self, _name: str) -> Instance:
        return self.found

    def shut_down(self, _name: str, _timeout: float) -> None:
        raise TryAgainError("LXD on secondary sec1: Instance is busy running a start operation")


def test_a_keeper_comes_again_to_what_lxd_is_at_work_on(place: Path, port: int) -> None:
    outside(place, port)
    plan = load_plan(place.parent / "plan.yml")
    servers: Any = {"sec1": BusyServer()}
    keeper = StandbyKeeper(plan, servers, Journal(plan.state_dir / "journal.db"), SystemClock())
    looked = keeper.look("s1")
    assert (looked.there, looked.act, looked.sentence) == (
        False,
        None,
        "the standby was just changed by another client",
    )


# -- HTTP ------------------------------------------------------------------------------------------------------

GOOD = b"HTTP/1.1 200 OK\r\n"


def _request(sock: socket.socket) -> bytes:
    head, _, body = sock.recv(65536).partition(b"\r\n\r\n")
    length = re.search(rb"Content-Length: (\d+)", head)
    while length is not None and len(body) < int(length[1]):
        body += sock.recv(65536)
    return head + b"\r\n\r\n" + body


@contextmanager
def saying(place: Path, *answers: bytes, stays: bool = False) -> Iterator[list[bytes]]:
    """A server that gives one of these on each connection, whatever it is asked, and hangs up, unless it `stays`."""
    asked: list[bytes] = []
    over = threading.Event()

    def work() -> None:
        for answer in answers:
            with listener.accept()[0] as sock:
                asked.append(_request(sock))
                # In parts: nothing says where they end. Who has heard enough hangs up.
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    for at in range(0, len(answer), 7):
                        sock.sendall(answer[at : at + 7])
                if stays:
                    over.wait(60)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen(8)
        listener.settimeout(60)
        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield asked
        finally:
            over.set()
            thread.join(60)


@pytest.mark.parametrize(
    ("answer", "content"),
    [
        (GOOD + b"Content-Length: 5\r\n\r\nhello", b"hello"),
        (GOOD + b"content-length: 0\r\n\r\n", b""),
        (
            GOOD + b"Transfer-Encoding: chunked\r\n\r\n3;some=thing\r\nhel\r\n2\r\nlo\r\n0\r\nTrailer: 1\r\n\r\n",
            b"hello",
        ),
        (GOOD + b"Transfer-Encoding: chunked\r\n\r\nc\r\n" + b"hello, world" + b"\r\n0\r\n\r\n", b"hello, world"),
        (GOOD + b"\r\nup to the end", b"up to the end"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + GOOD + b"Content-Length: 2\r\n\r\nok", b"ok"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    ],
)
def test_whatever_form_an_answer_has(place: Path, answer: bytes, content: bytes) -> None:
    with saying(place, answer):
        assert UnixSocketSession(place).request("GET", "/1.0", timeout=30).content == content


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "without response"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "SSH-2.0"),
        (GOOD, "not in JSON"),
        (GOOD + b"Content-Length: 4\r\n\r\nnull", "is neither LXD nor Incus"),
        (GOOD + b'Content-Length: 15\r\n\r\n{"metadata":{}}', "is neither LXD nor Incus"),
        (GOOD + b"Content-Length: 5\r\n\r\nhell", "IncompleteRead"),
        (GOOD + b"Content-Length: five\r\n\r\nhello", "not in JSON"),
        (GOOD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhel", "IncompleteRead"),
        (GOOD + b"Transfer-Encoding: chunked\r\n\r\nx\r\nhel", "IncompleteRead"),
        (GOOD + b"A: 1\r\n" * 500, "more than 100 headers"),
    ],
)
def test_no_answer_is_an_error_that_says_so(place: Path, answer: bytes, said: str) -> None:
    with (
        saying(place, answer),
        pytest.raises(ExternalError, match=f"LXD on secondary sec1 .* does not answer: .*{said}"),
    ):
        LxdServer("sec1", place, SystemClock()).get("web")


def test_a_file_larger_than_memory_is_not_read(place: Path) -> None:
    """A primary makes its standby's files as large as it likes."""
    with (
        saying(place, GOOD + b"Content-Length: 1099511627776\r\n\r\nsome"),
        pytest.raises(OSError, match="more than"),
    ):
        UnixSocketSession(place).request("GET", "/1.0/instances/web/files", timeout=30)


def test_a_file_larger_than_memory_is_not_read_over_https(monkeypatch: pytest.MonkeyPatch) -> None:
    import requests
    from requests.adapters import HTTPAdapter

    from vcrecovery.drivers.lxd.https import PinnedAdapter

    large = requests.Response()
    large.raw = io.BytesIO()
    large.headers["Content-Length"] = "1099511627776"
    monkeypatch.setattr(HTTPAdapter, "send", lambda *_args, **_words: large)
    adapter = object.__new__(PinnedAdapter)
    with pytest.raises(OSError, match="more than"):
        adapter.send(requests.PreparedRequest())
    large.headers["Content-Length"] = "4"
    assert adapter.send(requests.PreparedRequest()) is large


@pytest.mark.parametrize(
    ("days", "said", "hint"),
    [
        (10, "does not know the certificate of this controller", "lxc config trust add"),
        (
            4000,
            "of this controller for LXD on secondary sec1 (https://192.0.2.1:8443) has expired on",
            "keys_rotate.yml",
        ),
    ],
)
def test_a_certificate_that_has_expired_is_not_called_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int, said: str, hint: str
) -> None:
    """LXD trusts none that has, and says no more than that."""
    from vcrecovery.drivers.lxd import https

    keep_certificate(tmp_path, "vcrecovery", time.time() - days * 86400)
    certificate, key = tmp_path / "server.crt", tmp_path / "server.key"
    monkeypatch.setattr(https, "connected", lambda *_words: (None, {"auth": "untrusted"}))
    server = LxdServer("sec1", OverHttps("https://192.0.2.1:8443", certificate, key, certificate), SystemClock())
    with pytest.raises(ExternalError) as refused:
        server.connect()
    assert said in refused.value.message
    assert hint in refused.value.hint


def test_a_server_that_stops_in_the_middle_of_an_answer_is_given_up(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CALL_TIMEOUT", 0.5)
    half = GOOD + b"Content-Length: 5\r\n\r\nhell"
    with saying(place, half, stays=True), pytest.raises(ExternalError, match="does not answer: timed out"):
        LxdServer("sec1", place, SystemClock()).get("web")


def test_a_connection_that_the_server_ends_is_not_used_again(place: Path) -> None:
    said = GOOD + b"Content-Length: 2\r\n"
    answers = (said + b"\r\n{}", said + b"Connection: close\r\n\r\n{}", said + b"\r\n{}")
    with saying(place, *answers) as asked:
        session = UnixSocketSession(place)
        for _ in answers:
            assert session.request("GET", "/1.0", timeout=30).json() == {}
    assert len(asked) == 3


def test_one_that_it_ends_while_it_is_used_again_is_made_anew(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What only reads is asked for once more; of what changes something nobody knows whether it was done."""
    monkeypatch.setattr(unix_socket._Connection, "was_ended", False)
    with saying(place, *([GOOD + b"Content-Length: 2\r\n\r\n{}"] * 3)) as asked:
        session = UnixSocketSession(place)
        for _ in range(2):
            assert session.request("GET", "/1.0", timeout=30).json() == {}
        with pytest.raises(ConnectionError):
            session.request("PUT", "/1.0", json={}, timeout=30)
        assert session.request("PUT", "/1.0", json={}, timeout=30).json() == {}
    assert len(asked) == 3


def test_what_is_asked_for_arrives_as_it_was_meant(place: Path) -> None:
    with saying(place, GOOD + b"Content-Length: 2\r\n\r\n{}", GOOD + b"Content-Length: 2\r\n\r\n{}") as asked:
        session = UnixSocketSession(place)
        session.request("GET", "/1.0/a b?c#d", params={"path": "/etc/x&y"}, timeout=30)
        # Its first connection may not have been seen to end yet, and what changes something is not sent twice.
        session = UnixSocketSession(place)
        session.request("PUT", "/1.0/web", json={"a": "\u00e4"}, headers={"If-Match": "7"}, timeout=30)
        with pytest.raises(ValueError, match="Invalid header value"):
            session.request("PUT", "/1.0/web", headers={"If-Match": "7\r\nHost: other"}, timeout=30)
    assert asked[0].startswith(b"GET /1.0/a%20b%3Fc%23d?path=%2Fetc%2Fx%26y HTTP/1.1\r\n")
    head, _, body = asked[1].partition(b"\r\n\r\n")
    assert {b"If-Match: 7", b"Content-Length: %d" % len(body)} <= set(head.split(b"\r\n"))
    assert json.loads(body) == {"a": "\u00e4"}


@contextmanager
def nobody() -> Iterator[None]:
    """As a user who may read next to nothing."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("closed", ["socket", "folder"])
def test_who_is_not_root_is_told_so(tmp_path: Path, closed: str) -> None:
    folder = Path(tempfile.mkdtemp(dir="/tmp"))  # the folders of tmp_path are closed themselves
    try:
        place = folder / "unix.socket"
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(place))
            place.chmod(0o600)
            folder.chmod(0o755 if closed == "socket" else 0o700)
            with nobody(), pytest.raises(ExternalError) as caught:
                LxdServer("sec1", place, SystemClock()).connect()
    finally:
        shutil.rmtree(folder)
    assert str(caught.value).endswith(f"({place}) does not answer: Permission denied; run it as root")
    with pytest.raises(ExternalError, match="no such socket; start it"):
        LxdServer("sec1", tmp_path / "none", SystemClock()).connect()
