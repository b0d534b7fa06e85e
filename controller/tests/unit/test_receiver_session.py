"""A session of the receiver: what it says where it takes nothing, and what it becomes where it does."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import syslog
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import pytest

from vcrecovery.errors import ExternalError, RefusedError, UsageError, VCRecoveryError
from vcrecovery.store.connection import Connection
from vcrecovery.store.journal import Journal
from vcrecovery.transfer import receiver
from vcrecovery.transfer.heartbeat_copy import HEARTBEAT, TEMPLATE
from vcrecovery.transfer.rsync_words import server_arguments
from vcrecovery.transfer.sessions import are_files_arriving

WRITES = "rsync --server -lHogDtpAXrSe.iLsfxCIvu --delete --ignore-errors --force --numeric-ids . /"
READS = "rsync --server --sender -lHogtpAXrSe.LsfxC --specials --timeout=300 --numeric-ids . /"
STANDBY = {"role": "standby", "ready": "true"}
#: A failback copies.
COPIES = {"order": "7 copy 1.0"}
AGAIN = "run the role `secondary`"


class Secondary:
    """It is off, and its disk is mounted in `folder`: its standbys' configuration is read from a note there."""

    def __init__(self, folder: Path) -> None:
        self.state, self.rootfs = folder, folder / "web/rootfs"
        (self.rootfs / HEARTBEAT.lstrip("/")).parent.mkdir(parents=True)
        (folder / "standbys").mkdir()
        (folder / "takes-files").touch()
        self.entry: dict[str, Any] = {
            "container": "web",
            "rootfs": str(self.rootfs),
            "disk": str(folder),
            "note": str(folder / "note.json"),
            "takes_files": str(folder / "takes-files"),
        }
        self.has(STANDBY)
        self.wrote()

    def wrote(self) -> None:
        (self.state / "standbys/web.json").write_text(json.dumps(self.entry))

    def has(self, keys: Mapping[str, str]) -> None:
        config = {f"user.vcrecovery.{key}": value for key, value in keys.items()} | {"volatile.last_state.idmap": "[]"}
        note = {"instances": {"web": {"expanded_config": config}}}
        (self.state / "note.json").write_text(json.dumps(note))


@pytest.fixture
def secondary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Secondary:
    monkeypatch.setattr("os.path.ismount", lambda place: Path(place) == tmp_path)
    return Secondary(tmp_path)


def said(act: Callable[[], object], kind: type[VCRecoveryError]) -> str:
    with pytest.raises(kind) as caught:
        act()
    return str(caught.value)


# -- where it takes or gives nothing ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"role": "active"}, "refused: web is served by its standby; its files are live"),
        ({"role": "spare", "waits-on": "sec2"}, "refused: the standby of web waits on sec2 now; its VM looks there"),
        ({"role": "standby"}, f"refused: the standby of web is not ready; {AGAIN} again"),
        ({**STANDBY, "ready": "no"}, f"refused: the standby of web is not ready; {AGAIN} again"),
        ({**STANDBY, "keeping": "7"}, "a failback of web keeps what its standby was; try again later"),
    ],
)
def test_why_no_file_is_taken(secondary: Secondary, keys: dict[str, str], line: str) -> None:
    secondary.has(keys)
    assert said(lambda: receiver.find_target(secondary.state, "web"), VCRecoveryError) == line


def test_why_no_file_is_given(secondary: Secondary) -> None:
    def gives() -> object:
        return receiver.find_source(secondary.state, "web")

    assert said(gives, RefusedError) == "refused: no failback of web copies files now; vcrecovery failback web"
    secondary.has({**STANDBY, **COPIES})
    line = "refused: web is not served by its standby; its VM has the newer files"
    assert said(gives, RefusedError) == line
    secondary.has({"role": "active", **COPIES})
    assert receiver.find_source(secondary.state, "web").rootfs == secondary.rootfs


def test_what_is_told_of_a_standby_that_is_none(secondary: Secondary) -> None:
    def asks(service: str) -> Callable[[], object]:
        return lambda: receiver.who_serves(secondary.state, service)

    assert said(asks("db"), UsageError) == f"no standby of service 'db' is on this machine; {AGAIN}"
    secondary.has({"role": "drill"})
    assert said(asks("web"), ExternalError) == f"container web is no standby of VCRecovery; {AGAIN}"
    secondary.entry["container"] = "gone"
    secondary.wrote()
    assert said(asks("web"), ExternalError) == f"LXD knows no container gone; {AGAIN}"
    (secondary.state / "note.json").unlink()
    line = f"{secondary.state}/note.json cannot be read: [Errno 2] No such file or directory: "
    assert said(asks("web"), ExternalError).startswith(line)
    assert said(asks("web"), ExternalError).endswith("; power the secondary on and off again")


def test_an_lxd_that_is_not_there_or_says_nothing_is_given_up(
    secondary: Secondary, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Soon(socket.socket):
        """10 seconds are 0.1."""

        def settimeout(self, value: float | None) -> None:
            assert value == 10
            super().settimeout(0.1)

    path = secondary.state / "lxd"
    secondary.entry = {"container": "web", "rootfs": str(secondary.rootfs), "socket": str(path)}
    secondary.wrote()
    away = f"LXD ({path}) does not answer: [Errno 2] No such file or directory; start it"
    assert said(lambda: receiver.find_target(secondary.state, "web"), ExternalError) == away
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen()
        monkeypatch.setattr("socket.socket", Soon)
        line = f"LXD ({path}) does not answer: timed out; start it"
        assert said(lambda: receiver.find_target(secondary.state, "web"), ExternalError) == line


def test_what_is_refused_is_in_the_log_and_not_more_of_it_than_a_line(
    secondary: Secondary, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[tuple[object, ...]] = []
    monkeypatch.setattr("syslog.openlog", lambda *words: noted.append(words))
    monkeypatch.setattr("syslog.syslog", lambda *words: noted.append(words))
    command = "id" + "\n;" * 200
    with pytest.raises(RefusedError) as caught:
        receiver.receive(secondary.state, "web", command, seeds=False)
    line = f"receive web: {caught.value}: {command[:200]!r}"
    assert noted == [("vcrecovery", syslog.LOG_PID, syslog.LOG_AUTH), (syslog.LOG_WARNING, line)]


# -- while its VM is on, and the disk with it ------------------------------------------------------------------


def test_files_for_a_secondary_that_is_on_wait_or_are_handed_on(
    secondary: Secondary, monkeypatch: pytest.MonkeyPatch
) -> None:
    on: list[tuple[object, ...]] = []

    def hand_on(*words: object) -> NoReturn:
        on.append(words)
        raise SystemExit(0)

    monkeypatch.setattr(receiver, "hand_on", hand_on)
    (secondary.state / "takes-files").unlink()
    line = "the secondary of web is on, or about to be: its disk is not here; files are taken once it is off"

    def receives(command: str) -> Callable[[], object]:
        return lambda: receiver.receive(secondary.state, "web", command, seeds=False)

    assert said(receives(WRITES), ExternalError) == line
    key = secondary.state / "relay-key"
    relay = {"key": str(key), "address": "192.0.2.20"}
    secondary.entry["relay"] = relay
    secondary.wrote()
    # The role has not brought it the key yet.
    assert said(receives(WRITES), ExternalError) == line
    key.touch()
    with pytest.raises(SystemExit):
        receives(WRITES)()
    assert on == [(relay, WRITES)]
    assert are_files_arriving(secondary.state, "web")


def test_a_journal_that_cannot_be_read_says_nobody_serves(secondary: Secondary) -> None:
    (secondary.state / "takes-files").unlink()
    (secondary.state / "journal.db").write_text("no database")
    line = f"the journal in {secondary.state} cannot be read: file is not a database; ask again later"
    assert said(lambda: receiver.who_serves(secondary.state, "web"), ExternalError) == line


def test_the_journal_is_only_read(secondary: Secondary) -> None:
    """A question makes none, and leaves none locked."""
    (secondary.state / "takes-files").unlink()
    assert "unable to open" in said(lambda: receiver.who_serves(secondary.state, "web"), ExternalError)
    assert not (secondary.state / "journal.db").exists()
    Journal(secondary.state / "journal.db")
    assert receiver.who_serves(secondary.state, "web").words == "primary"
    with sqlite3.connect(secondary.state / "journal.db", timeout=0.1, factory=Connection) as db:
        db.execute("BEGIN EXCLUSIVE")


# -- what it becomes -------------------------------------------------------------------------------------------


class Became:
    """The jail and rsync, as this process would enter them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.jail: tuple[Path, Any, dict[str, Any]] | None = None
        self.program: tuple[str, list[str], dict[str, str]] | None = None
        self.umask = -1
        monkeypatch.setattr("vcrecovery.transfer.jail.enter", self._enter)
        monkeypatch.setattr("os.execve", self._execve)
        monkeypatch.setattr("os.umask", self._set_umask)

    def _enter(self, rootfs: Path, id_map: Any, **words: Any) -> None:
        self.jail = rootfs, id_map, words

    def _set_umask(self, mask: int) -> int:
        self.umask = mask
        return 0

    def _execve(self, program: str, arguments: list[str], env: dict[str, str]) -> None:
        self.program = program, arguments, env


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch) -> Became:
    return Became(monkeypatch)


def receive(secondary: Secondary, command: str, *, seeds: bool = False) -> None:
    """What it would not come back from."""
    receiver.receive(secondary.state, "web", command, seeds=seeds)


def test_a_session_that_writes_is_rsync_in_a_jail_for_as_long_as_the_standby_is_one(
    secondary: Secondary, became: Became
) -> None:
    receive(secondary, WRITES)
    env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    assert became.program == ("/usr/bin/rsync", server_arguments(WRITES), env)
    assert became.umask == 0o022
    assert became.jail is not None
    rootfs, id_map, words = became.jail
    assert (rootfs, id_map, words["read_only"]) == (secondary.rootfs, [], False)
    # The lock goes with it: whoever sets the standby aside sees that files arrive.
    os.fstat(words["session"])
    assert are_files_arriving(secondary.state, "web")
    os.close(words["session"])
    assert not are_files_arriving(secondary.state, "web")
    assert words["still"]() is True
    secondary.has({**STANDBY, "keeping": "true"})
    assert words["still"]() is False
    secondary.has({"role": "active"})
    assert words["still"]() is False
    (secondary.state / "note.json").unlink()
    assert words["still"]() is None


def test_a_session_that_reads_writes_nothing_and_has_no_lock(secondary: Secondary, became: Became) -> None:
    secondary.has({"role": "active", **COPIES})
    copy = secondary.rootfs.parent / "templates" / TEMPLATE
    copy.parent.mkdir()
    copy.write_text("of before")
    receive(secondary, READS)
    assert became.program is not None
    assert became.program[1] == server_arguments(READS)
    assert became.jail is not None
    words = became.jail[2]
    assert (words["read_only"], words["session"], words["still"]()) == (True, None, True)
    assert copy.read_text() == "of before"


@pytest.mark.parametrize(("seeds", "left"), [(False, "its heartbeat"), (True, None)])
def test_only_the_primarys_own_files_leave_its_heartbeat_where_lxd_hands_it_out(
    secondary: Secondary, became: Became, seeds: bool, left: str | None
) -> None:
    (secondary.rootfs / HEARTBEAT.lstrip("/")).write_text("its heartbeat")
    copy = secondary.rootfs.parent / "templates" / TEMPLATE
    copy.parent.mkdir()
    copy.write_text("of before")
    receive(secondary, WRITES, seeds=seeds)
    assert became.jail is not None
    os.close(became.jail[2]["session"])
    assert (copy.read_text() if copy.exists() else None) == left
