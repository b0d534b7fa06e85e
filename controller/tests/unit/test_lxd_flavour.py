"""LXD or Incus: the driver takes the server's word for it, and says things by its names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from http.client import HTTPMessage
from pathlib import Path
from typing import Any

import pytest
from set_clock import SetClock

from vcrecovery.drivers.clock import Clock, SystemClock
from vcrecovery.drivers.lxd import LxdServer, connection
from vcrecovery.drivers.lxd.connection import InstanceBusyError
from vcrecovery.drivers.lxd.unix_socket import Answer
from vcrecovery.errors import ExternalError
from vcrecovery.operations.steps.memory import checkpoints_problem

SYSTEM_CLOCK = SystemClock()


class Says:
    """A session with a server that is `server`; every operation that is waited for ends as `waited`."""

    def __init__(self, server: str | None, waited: Mapping[str, Any] | None = None) -> None:
        self._environment = {} if server is None else {"environment": {"server": server}}
        self._waited = waited
        self.headers: list[Mapping[str, str]] = []

    def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, json: Any = None, **_words: Any
    ) -> Answer:
        if url == "/1.0":
            return said({"metadata": {"auth": "trusted", **self._environment}})
        if url.endswith("/wait"):
            return said(dict(self._waited or {}))
        if url.endswith("/files"):
            self.headers.append(dict(headers or {}))
        return said({"metadata": {"id": "op", "status": "Stopped", "config": {}, "devices": {}}})


class Busy(Says):
    """It refuses so many changes, since it copies the instance to elsewhere."""

    def __init__(self, server: str, refusals: int) -> None:
        super().__init__(server)
        self.refusals = refusals

    def request(self, method: str, url: str, **words: Any) -> Answer:
        if method == "PATCH" and self.refusals:
            self.refusals -= 1
            error = 'Failed to create instance update operation: Instance is busy running a "migrate" operation'
            return replace(said({"type": "error", "error": error}), status_code=500)
        return super().request(method, url, **words)


def said(document: Mapping[str, Any]) -> Answer:
    return Answer(200, HTTPMessage(), json.dumps(document).encode())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "unix.socket").touch()
    return tmp_path / "unix.socket"


def server(place: Path, session: Says, monkeypatch: pytest.MonkeyPatch, clock: Clock = SYSTEM_CLOCK) -> LxdServer:
    monkeypatch.setattr(connection, "UnixSocketSession", lambda _place: session)
    return LxdServer("sec1", place, clock)


@pytest.mark.parametrize(
    ("says", "product", "client", "header"),
    [("lxd", "LXD", "lxc", "X-LXD-uid"), ("incus", "Incus", "incus", "X-Incus-uid"), (None, "LXD", "lxc", "X-LXD-uid")],
)
def test_it_is_called_what_it_says(
    says: str | None, product: str, client: str, header: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Says(says, {"type": "sync", "metadata": {"status_code": 400, "err": "no"}})
    lxd = server(place, session, monkeypatch)
    lxd.write_file("web", "/etc/x", b"")
    assert header in session.headers[0]
    with pytest.raises(ExternalError, match=f"{product} on secondary sec1: the start of web: no") as refused:
        lxd.start("web", 5)
    assert f"`{client} info --show-log web`" in (refused.value.hint or "")


@pytest.mark.parametrize(("folder", "product", "client"), [("lxd", "LXD", "lxc"), ("incus", "Incus", "incus")])
def test_one_that_was_never_reached_is_called_by_its_socket(
    folder: str, product: str, client: str, tmp_path: Path
) -> None:
    lxd = LxdServer("sec1", tmp_path / folder / "unix.socket", SystemClock())
    with pytest.raises(ExternalError, match=rf"{product} on secondary sec1 .*: no such socket; .*`{client} list`"):
        lxd.get("web")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("Failed to run: forkstart: exit status 1", "the removal of web: Failed to run: forkstart: exit status 1"),
        ("context deadline exceeded", "did not finish the removal of web within 60 s"),
    ],
)
def test_an_error_that_comes_with_status_200(
    error: str, words: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Incus answers who waits for an operation that fails, or that goes on."""
    waited = {"type": "error", "error": error, "error_code": 500, "metadata": None}
    lxd = server(place, Says("incus", waited), monkeypatch)
    with pytest.raises(ExternalError, match=words):
        lxd.delete("web")


def test_a_change_waits_for_an_instance_that_is_copied(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Incus keeps one from changes meanwhile; and for no copy for ever."""
    clock = SetClock()
    session = Busy("incus", 3)
    lxd = server(place, session, monkeypatch, clock)
    lxd.reconfigure(lambda: lxd.must_get("web"), lambda _found: {"user.x": "1"})
    assert session.refusals == 0
    session.refusals, began = 10**6, clock.steady()
    with pytest.raises(InstanceBusyError, match="Instance is busy running"):
        lxd.reconfigure(lambda: lxd.must_get("web"), lambda _found: {"user.x": "2"})
    assert 5 < clock.steady() - began < 60


def test_no_copies_between_lxd_and_incus(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lxd = server(place, Says("lxd"), monkeypatch)
    lxd.connect()
    incus = server(place, Says("incus"), monkeypatch)
    incus.connect()
    lxd.refuse_another_kind(lxd)
    for here, there in ((lxd, incus), (incus, lxd)):
        said = f"{there.called} takes no copies from {here.called}"
        with pytest.raises(ExternalError, match=said):
            there.pull(here, "web", {}, {}, 10)


def test_incus_moves_no_memory(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was noted there."""
    incus = server(place, Says("incus"), monkeypatch)
    assert checkpoints_problem(incus) == "secondary sec1 has Incus, with which no memory is moved"
