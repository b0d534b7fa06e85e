"""Name servers that do not speak as they should: one line that names the server, whatever comes back."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dns.flags
import dns.message
import dns.query
import dns.rdatatype
import dns.rrset
import pytest
from name_server import Answer, framed, is_update, server, zone

from vcrecovery.drivers import dns as driver
from vcrecovery.drivers.dns import Change, Server
from vcrecovery.errors import ExternalError

CHANGE = Change("A", "10.10.0.10", "10.20.0.10", 30)


def reply(query: bytes, flags: int = dns.flags.AA) -> dns.message.Message:
    made = dns.message.make_response(dns.message.from_wire(query))
    made.flags |= flags
    return made


def one_line_about(at: Server, caught: pytest.ExceptionInfo[ExternalError]) -> None:
    said = str(caught.value)
    assert str(at) in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    "answer",
    [
        lambda _query: b"",
        lambda _query: b"\x00",
        lambda _query: b"\x01\x00half a message",
        lambda _query: framed(b""),
        lambda _query: b"HTTP/1.1 400 Bad Request\r\n\r\n" * 2000,
        lambda query: framed(query[:5]),
        lambda query: framed(query[:12]),
        lambda query: framed(bytes(2) + query[2:]),
        lambda query: framed(query),
        lambda query: framed(reply(query).to_wire()[:-3]),
        lambda query: framed(reply(query).to_wire() + b"more"),
        lambda query: framed(reply(query, 0).to_wire()),
    ],
    ids=[
        *("hangs-up", "one-byte", "half", "empty", "http", "short-header", "header-only", "other-id", "echo"),
        *("cut", "too-long", "no-authority"),
    ],
)
def test_what_is_no_answer(answer: Answer, tmp_path: Path) -> None:
    with server(answer) as at:
        with pytest.raises(ExternalError) as caught:
            zone(tmp_path, at).read(at, "www.example.test", ["A"])
        one_line_about(at, caught)


def test_anything_at_all(tmp_path: Path) -> None:
    chance = random.Random(1)  # noqa: S311  no secret

    def noise(query: bytes) -> bytes:
        made = bytearray(reply(query).to_wire() + chance.randbytes(chance.randrange(40)))
        for _ in range(chance.randrange(1, 20)):
            made[chance.randrange(2, len(made))] = chance.randrange(256)
        return framed(bytes(made))

    said = []
    with server(noise) as at:
        for _ in range(300):
            try:
                zone(tmp_path, at).read(at, "www.example.test", ["A", "SRV"])
            except ExternalError as error:
                said.append(str(error))
    assert said
    assert all(str(at) in text and len(text.splitlines()) == 1 for text in said)


def test_a_server_that_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "QUERY_TIMEOUT", 0.3)
    gone = threading.Event()

    def silence(_query: bytes) -> bytes:
        gone.wait(60)
        return b""

    with server(silence) as at:
        with pytest.raises(ExternalError, match="timed out") as caught:
            zone(tmp_path, at).read(at, "www.example.test", ["A"])
        one_line_about(at, caught)
        gone.set()


def test_a_whole_site_does_not_ask_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """BIND has a short queue: it dropped questions of 200 services, which were then told that it does not answer."""
    monkeypatch.setattr(driver, "QUERY_TIMEOUT", 60.0)
    lock = threading.Lock()
    now = most = 0

    def slowly(query: bytes) -> bytes:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.005)
        with lock:
            now -= 1
        return framed(reply(query).to_wire())

    with server(slowly) as at:
        asked = zone(tmp_path, at)
        with ThreadPoolExecutor(150) as pool:
            found = list(pool.map(lambda n: asked.read(at, f"s{n}.example.test", ["A"]), range(150)))
    assert len(found) == 150
    assert 1 < most <= driver.QUESTIONS_AT_ONCE


def test_a_whole_site_waits_for_a_silent_server_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "QUERY_TIMEOUT", 2.0)
    gone = threading.Event()
    asked = 0

    def silence(_query: bytes) -> bytes:
        nonlocal asked
        asked += 1
        gone.wait(60)
        return b""

    with server(silence) as at:
        there = zone(tmp_path, at)

        def ask(number: int) -> None:
            with pytest.raises(ExternalError, match="timed out"):
                there.read(at, f"s{number}.example.test", ["A"])

        with ThreadPoolExecutor(150) as pool:
            list(pool.map(ask, range(150)))
        gone.set()
    # Those that had their turn when it turned out to be silent; one or another may have come too late to be told.
    assert asked <= 3 * driver.QUESTIONS_AT_ONCE


@pytest.mark.parametrize("same", ["address", "port"])
def test_a_silent_server_holds_up_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same: str) -> None:
    monkeypatch.setattr(driver, "QUERY_TIMEOUT", 60.0)
    all_asked, gone = threading.Barrier(driver.QUESTIONS_AT_ONCE + 1), threading.Event()

    def silence(_query: bytes) -> bytes:
        all_asked.wait(60)
        gone.wait(60)
        return b""

    def answers(query: bytes) -> bytes:
        return framed(reply(query).to_wire())

    def ask(at: Server) -> driver.Reading:
        return zone(tmp_path, at).read(at, "www.example.test", ["A"])

    with server(silence) as silent, ThreadPoolExecutor(driver.QUESTIONS_AT_ONCE + 1) as pool:
        waiting = [pool.submit(ask, silent) for _ in range(driver.QUESTIONS_AT_ONCE)]
        all_asked.wait(60)
        beside = {"address": "127.0.0.2", "port": silent.port} if same == "port" else {}
        try:
            with server(answers, "ns2", **beside) as other:  # type: ignore[arg-type]
                assert pool.submit(ask, other).result(20).epoch == 0
        finally:
            gone.set()
        assert all(isinstance(one.exception(60), ExternalError) for one in waiting)


def test_an_update_that_somebody_else_answers(tmp_path: Path) -> None:
    def unsigned(query: bytes) -> bytes:
        if is_update(query):
            # Without the key its question and its signature cannot be read, only answered.
            return framed(query[:2] + b"\xa8\x00" + bytes(8))
        return framed(reply(query).to_wire())

    with server(unsigned) as at:
        asked = zone(tmp_path, at)
        prepared = asked.prepare("www.example.test", [CHANGE], 1)
        with pytest.raises(ExternalError, match=r"TSIG|signature") as caught:
            asked.commit(prepared)
        one_line_about(at, caught)


def test_an_update_on_which_the_server_hangs_up(tmp_path: Path) -> None:
    def hangs_up(query: bytes) -> bytes:
        return b"" if is_update(query) else framed(reply(query).to_wire())

    with server(hangs_up) as at:
        asked = zone(tmp_path, at)
        prepared = asked.prepare("www.example.test", [CHANGE], 1)
        with pytest.raises(ExternalError) as caught:
            asked.commit(prepared)
        assert str(caught.value) == f"DNS server {at} hangs up; see that it runs, and run it again"
        one_line_about(at, caught)


def test_records_that_nobody_asked_for_are_none_of_the_name(tmp_path: Path) -> None:
    def more(query: bytes) -> bytes:
        made = reply(query)
        name = made.question[0].name
        made.answer += [dns.rrset.from_text(name, 5, "IN", *more) for more in (("HINFO", "a b"), ("NS", "x."))]
        return framed(made.to_wire())

    with server(more) as at:
        found = zone(tmp_path, at).read(at, "www.example.test", ["A"])
    assert (found.all_values, found.alias, found.marker) == ([], "", ())


def test_those_of_another_name_that_come_first_hide_none(tmp_path: Path) -> None:
    def more(query: bytes) -> bytes:
        made = reply(query)
        name, kind = made.question[0].name, made.question[0].rdtype
        if kind == dns.rdatatype.A:
            other = ("elsewhere.example.test.", 5, "IN", "A", "10.66.0.1")
            made.answer += [dns.rrset.from_text(*other), dns.rrset.from_text(name, 7, "IN", "A", "10.20.0.10")]
        return framed(made.to_wire())

    with server(more) as at:
        found = zone(tmp_path, at).read(at, "www.example.test", ["A"])
    assert (found.all_values, found.ttl) == (["10.20.0.10"], {"A": 7})


def test_an_error_without_a_word_is_named_by_its_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def tcp(*_words: object, **_more: object) -> None:
        raise ConnectionResetError

    monkeypatch.setattr(dns.query, "tcp", tcp)
    at = Server("ns1", "127.0.0.1", 9)
    with pytest.raises(ExternalError, match=r"DNS server ns1 .* does not answer: ConnectionResetError"):
        zone(tmp_path, at).read(at, "www.example.test", ["A"])
