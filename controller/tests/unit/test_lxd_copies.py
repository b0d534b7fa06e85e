"""A copy between two servers, simulated: cut off, still, over a full pool, beside an earlier one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from http.client import HTTPMessage
from pathlib import Path
from typing import Any

import pytest
from set_clock import SetClock

from vcrecovery.drivers.lxd import LxdServer, connection
from vcrecovery.drivers.lxd.copies import EARLIER_STILL_FOR, INCOMPLETE_KEY, STILL_FOR, CopyAgainError
from vcrecovery.drivers.lxd.unix_socket import Answer
from vcrecovery.errors import ExternalError

#: As LXD 5.0 says it.
LOST = (
    "Error transferring instance data: Failed creating instance on target: Rsync receive failed: /var/lib/lxd/x/: "
    "[exit status 12 read tcp 10.0.0.2:33722->10.0.0.1:8443: read: connection timed out] (rsync: connection "
    "unexpectedly closed)"
)


class Two:
    """`copies`: what the operation of a copy is after so many seconds; `left`: the same of one that goes on already."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = SetClock(0.0)
        self.copies: Callable[[float], Mapping[str, Any]] = lambda _age: {"status_code": 200}
        self.left: Callable[[float], Mapping[str, Any] | None] = lambda _age: None
        #: Of the instance, and what LXD says to a change of it.
        self.config: dict[str, str] = {}
        self.objects = ""
        self.asked: list[tuple[str, str]] = []
        self.begun = 0.0
        monkeypatch.setattr(connection, "UnixSocketSession", lambda _place: self)
        (tmp_path / "unix.socket").touch()
        self.source, self.here = (LxdServer(name, tmp_path / "unix.socket", self.clock) for name in ("sec1", "sec2"))

    def pull(self, timeout: float = 86400.0) -> None:
        self.here.pull(self.source, "web", {}, {}, timeout)

    def request(self, method: str, url: str, *, json: Any = None, **_words: Any) -> Answer:
        place = url.removeprefix("/1.0")
        self.asked.append((method, place))
        if place == "":
            environment = {"server": "lxd", "certificate": "x", "addresses": ["10.0.0.1:8443"]}
            return said({"auth": "trusted", "environment": environment})
        if place == "/operations":
            left = self.left(self.clock.steady())
            running = {"id": "old", "class": "task", "resources": {"instances": ["/1.0/instances/web?project=default"]}}
            return said({} if left is None else {"running": [running | dict(left)]})
        if place == "/operations/copy" and method == "GET":
            return said({"err": "", **self.copies(self.clock.steady() - self.begun)})
        if method == "PATCH" and self.objects:
            return Answer(500, HTTPMessage(), json_of({"error": self.objects, "error_code": 500, "type": "error"}))
        if method == "POST" and place == "/instances":
            self.begun = self.clock.steady()
            return said({"id": "copy", "metadata": {}})
        found = {
            "id": "sent",
            "status": "Stopped",
            "status_code": 200,
            "config": self.config,
            "devices": {},
            "metadata": {},
            "architecture": "x86_64",
        }
        return said(found)


def said(document: Mapping[str, Any]) -> Answer:
    return Answer(200, HTTPMessage(), json_of({"metadata": document}))


def json_of(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document).encode()


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Two:
    return Two(tmp_path, monkeypatch)


def goes_on(changed_at: float) -> dict[str, Any]:
    return {"status_code": 103, "updated_at": f"{changed_at}"}


def fails(why: str) -> Callable[[float], Mapping[str, Any]]:
    return lambda _age: {"status_code": 400, "err": why}


def test_one_that_moves_slowly_goes_on(two: Two) -> None:
    """A byte in 20 minutes."""
    two.copies = lambda age: goes_on(age // 1200) if age < 2500 else {"status_code": 200}
    two.pull()
    assert two.clock.steady() >= 2500


def test_one_that_stands_still_is_given_up(two: Two) -> None:
    two.copies = lambda age: goes_on(min(age, 100.0))
    with pytest.raises(ExternalError, match="copy of web from sec1 to sec2 stands still: no byte has moved for 30 min"):
        two.pull()
    assert STILL_FOR < two.clock.steady() < STILL_FOR + 200
    assert ("DELETE", "/operations/copy") in two.asked


def test_a_lost_network_is_one_plain_line(two: Two) -> None:
    two.copies = fails(LOST)
    with pytest.raises(ExternalError) as raised:
        two.pull()
    assert str(raised.value) == (
        "the copy of web from sec1 to sec2 was cut off: sec2 has lost sec1 (connection timed out); once the network "
        "between the two is mended, run it again"
    )


def test_an_offer_that_was_gone_is_worth_another_try(two: Two) -> None:
    """The source's LXD keeps it for 10 s, and a destination that is very busy needs longer to take it up."""
    two.copies = fails("Error transferring instance data: websocket: bad handshake")
    with pytest.raises(CopyAgainError) as raised:
        two.pull()
    assert str(raised.value) == (
        "the copy of web from sec1 to sec2 did not begin: sec2 took longer than the 10 s for which LXD keeps it ready "
        "(Error transferring instance data: websocket: bad handshake); run it again once sec2 is less busy"
    )


def test_files_that_vanished_are_worth_another_try(two: Two) -> None:
    two.copies = fails("Error transferring instance data: rsync: [exit status 24]")
    with pytest.raises(CopyAgainError, match="exit status 24"):
        two.pull()


def test_an_earlier_one_that_goes_on_is_waited_for(two: Two) -> None:
    progress = {"metadata": {"fs_progress": "web: 5.00MB (1.00MB/s)"}}
    two.left = lambda now: goes_on(now) | progress if now < 300 else None
    said: list[str] = []
    two.here.pull(two.source, "web", {}, {}, 86400.0, tell=said.append)
    assert two.begun >= 300
    assert said == ["waits for an earlier copy, which goes on: web: 5.00MB (1.00MB/s)"]


@pytest.mark.parametrize("timeout", [10.0, 86400.0])
def test_nothing_is_copied_beside_an_earlier_one_that_hangs(two: Two, timeout: float) -> None:
    two.left = lambda _now: goes_on(0.0)
    with pytest.raises(ExternalError, match="an earlier copy of web to sec2 has not ended: LXD there goes on with"):
        two.pull(timeout)
    assert two.clock.steady() < min(timeout, EARLIER_STILL_FOR) + 1
    assert {method for method, _ in two.asked} == {"GET"}


#: As LXD 5.0 says it, where the folder of an instance is not there.
NO_FOLDER = (
    'Failed to write backup file: Failed to create file "/var/lib/lxd/containers/web/backup.yaml": open '
    "/var/lib/lxd/containers/web/backup.yaml: no such file or directory"
)


def test_one_that_was_made_and_is_not_there_is_not_removed(two: Two) -> None:
    """The disk of its pool is not mounted: its files and its restore points are all there once that is."""
    two.objects = NO_FOLDER
    with pytest.raises(ExternalError, match="Failed to write backup file"):
        two.pull()
    assert "DELETE" not in {method for method, _ in two.asked}


def test_one_in_whose_making_lxd_was_ended_is_made_anew(two: Two) -> None:
    two.objects, two.config = NO_FOLDER, {INCOMPLETE_KEY: "true"}
    with pytest.raises(ExternalError, match="Failed to write backup file"):
        # This one objects for ever.
        two.pull()
    assert ("DELETE", "/instances/web") in two.asked
    assert [place for method, place in two.asked if method == "POST"][:1] == ["/instances"]
