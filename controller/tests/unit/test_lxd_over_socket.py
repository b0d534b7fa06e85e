"""The LXD driver on a socket: few connections for many calls, and new ones when the server has come back.

The server is simulated: the benchmark's, which answers as LXD does.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from recovery_bench.overhead_lxd import Connection, Server
from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.lxd import LxdServer, TryAgainError, connection
from vcrecovery.errors import OutsideError

NAMES = [f"s{number}" for number in range(30)]


class Serving:
    """What has happened at one server."""

    def __init__(self) -> None:
        self.connections: list[asyncio.BaseTransport] = []


@contextmanager
def serving(place: Path) -> Iterator[Serving]:
    made, containers = Serving(), Server(NAMES)

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
    with pytest.raises(OutsideError, match="no such socket"):
        lxd.get("s1")
    with serving(place):
        assert lxd.get("s1") is not None
    # This time nobody has looked meanwhile.
    with serving(place):
        assert lxd.get("s1") is not None


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
            with pytest.raises(OutsideError, match="does not answer"):
                lxd.get("web")

        threads = [threading.Thread(target=ask) for _ in range(8)]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # One after the other they would take 8 s.
        assert time.monotonic() - began < 5
