"""What the receiver takes, word by word."""

from __future__ import annotations

import json
import os
import shlex
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from lab.waiting import wait_for
from vcrecovery.cli.receive import receive
from vcrecovery.errors import ExternalError, RefusedError
from vcrecovery.primary.superseded import Report
from vcrecovery.transfer import receiver
from vcrecovery.transfer.failback_orders import ORDER_KEY, REPORT, Given, Order, report_in
from vcrecovery.transfer.rsync_words import reads, server_arguments
from vcrecovery.transfer.sessions import are_files_arriving, set_aside

#: What lsyncd's rsync sends, seen on the wire of rsync 3.2.7.
OF_LSYNCD = "rsync --server -lHogDtpAXrSe.iLsfxCIvu --delete --ignore-errors --force --numeric-ids . /"


def test_what_lsyncd_sends_is_taken() -> None:
    words = server_arguments(OF_LSYNCD)
    assert words[:2] == ["rsync", "--server"]
    assert words[-2:] == [".", "/standby/"]
    assert "--filter=-x trusted.*" in words


#: What rsync is called with on a primary, by lsyncd and to reconcile.
WHOLE_TREE = "-aHAXS --numeric-ids --delete --delete-delay --force --timeout=300 --bwlimit=2048 --filter='merge {list}'"
NAMED_PATHS = "-aHAXS --numeric-ids --no-r --dirs --delete-missing-args --force --from0 --files-from=- --timeout=300"
NO_NODES = f"{WHOLE_TREE} --no-devices"
TOGETHER = f"{WHOLE_TREE} --delay-updates --filter='R .~tmp~/'"
SEED = "-aHAXS --numeric-ids --delete --force --exclude-from={list}"


@pytest.mark.parametrize(
    "options",
    [
        WHOLE_TREE,
        f"{WHOLE_TREE} --8-bit-output --out-format='%i %n' --info=progress2",
        NAMED_PATHS,
        SEED,
        NO_NODES,
        TOGETHER,
    ],
)
def test_what_this_machines_rsync_sends_is_taken(options: str, tmp_path: Path) -> None:
    (tmp_path / "list").write_text("- /x\n")
    shell = tmp_path / "shell"
    shell.write_text(f'#!/bin/sh\nshift\necho "$*" >{tmp_path}/sent\n')
    shell.chmod(0o755)
    words = ["rsync", *shlex.split(options.format(list=tmp_path / "list")), "-e", str(shell), f"{tmp_path}/", "host:/"]
    subprocess.run(words, capture_output=True, timeout=30, check=False, input=b"/a\0")
    sent = (tmp_path / "sent").read_text()
    assert server_arguments(sent)[-2:] == [".", "/standby/"], sent


#: What a VM's rsync says that reads: 3.5.0 and 3.2.7 here, and the oldest that knows the VM's options.
READING = [
    "rsync --server --sender -lHogtpAXrSe.iLsfxCIvu --specials --timeout=300 --bwlimit=2048 --numeric-ids . /",
    "rsync --server --sender -lHogtpAXrSe.iLsfxC --specials --timeout=300 --numeric-ids . /",
    "rsync --server --sender -lHogtpAXrSe.LsfxC --specials --timeout=300 --numeric-ids . /",
]


@pytest.mark.parametrize("command", READING)
def test_a_vm_that_fetches_may_read(command: str) -> None:
    words = server_arguments(command)
    assert words[:3] == ["rsync", "--server", "--sender"]
    assert words[-2:] == [".", "/standby/"]
    assert "--filter=-x trusted.*" in words
    assert reads(words)
    assert not reads(server_arguments(OF_LSYNCD))


@pytest.mark.parametrize(
    "command",
    [
        "",
        "id",
        "sh -c id",
        "rsync",
        "rsync --daemon",
        "rsync --server /",
        "rsync --server --daemon .",
        "/srv/rsync --server -r . /",
        "rsync --server -r --sender . /",
        "rsync --server --sender --sender -r . /",
        "rsync --server --sender -r . /etc",
        "rsync --server --sender -r . / /etc",
        "rsync --server --sender -vr . /",
        "rsync --server --sender -sr . /",
        "rsync --server --sender -Lr . /",
        "rsync --server --sender -kr . /",
        "rsync --server --sender -Rr . /",
        "rsync --server --sender -nr . /",
        "rsync --server --sender -lHogDtpAXr . /",
        "rsync --server --sender -r --remove-source-files . /",
        "rsync --server --sender -r --copy-unsafe-links . /",
        "rsync --server --sender -r --copy-devices . /",
        "rsync --server --sender -r --files-from=- --from0 . /",
        "rsync --server --sender -r --delete . /",
        "rsync --server --sender -r --force . /",
        "rsync --server --sender -r --ignore-errors . /",
        "rsync --server --sender -r --timeout=x . /",
        "rsync --server --sender -r --compress-level=9 . /",
        "rsync --server --sender -r --out-format=%n . /",
        "rsync --server --sender -e/bin/sh -r . /",
        "rsync --server -r . /etc",
        "rsync --server -r . /../etc",
        "rsync --server -r . //",
        "rsync --server -r . .",
        "rsync --server -r . / /etc",
        "rsync --server -r / .",
        "rsync --server -sr . /",
        "rsync --server -Lr . /",
        "rsync --server -kr . /",
        "rsync --server -Kr . /",
        "rsync --server -br . /",
        "rsync --server -rP . /",
        "rsync --server --partial -r . /",
        "rsync --server --inplace -r . /",
        "rsync --server --append -r . /",
        "rsync --server --log-format=%n -r . /",
        "rsync --server --files-from=- --from0 -r . /",
        "rsync --server --copy-devices -r . /",
        "rsync --server --munge-links -r . /",
        "rsync --server '--filter=-x user.*' -r . /",
        "rsync --server --log-file=/etc/x -r . /",
        "rsync --server --temp-dir=/etc -r . /",
        "rsync --server --max-alloc=0 -r . /",
        "rsync --server -T /etc -r . /",
        "rsync --server --partial-dir=/etc -r . /",
        "rsync --server --backup-dir=/etc -r . /",
        "rsync --server --link-dest=/etc -r . /",
        "rsync --server --compare-dest=/etc -r . /",
        "rsync --server --files-from=/etc/shadow -r . /",
        "rsync --server --write-devices -r . /",
        "rsync --server --copy-unsafe-links -r . /",
        "rsync --server --delete-excluded -r . /",
        "rsync --server --config=/x -r . /",
        "rsync --server --rsync-path=/x -r . /",
        "rsync --server -e/bin/sh -r . /",
        "rsync --server '-e sh' -r . /",
        "rsync --server -r . '/",
        "rsync --server -r . / ; id",
        "rsync --server --timeout=1;id -r . /",
    ],
)
def test_all_else_is_refused(command: str) -> None:
    with pytest.raises(RefusedError, match="refused"):
        server_arguments(command)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("rsync --server -r . '/", "refused: the command cannot be read"),
        ("x" * 81, f"refused: only rsync may write here, not '{'x' * 80}'"),
        (f"rsync --server -r . /{'x' * 80}", f"refused: the only place to write to is /, not '/{'x' * 79}'"),
        (f"rsync --server --{'x' * 79} . /", f"refused: rsync's option '--{'x' * 78}'"),
    ],
)
def test_what_is_refused_is_named_as_far_as_a_line_holds_it(command: str, said: str) -> None:
    with pytest.raises(RefusedError) as caught:
        server_arguments(command)
    assert caught.value.message == said


def test_an_rsync_needs_no_options() -> None:
    assert server_arguments("rsync --server . /")[-2:] == [".", "/standby/"]


class _Lxd(socketserver.UnixStreamServer):
    """Answers with one container, in that role."""

    def __init__(self, path: Path, status: int, role: str) -> None:
        self.config = {"user.vcrecovery.role": role, "user.vcrecovery.ready": "true", "volatile.last_state.idmap": "[]"}
        self.asked = 0

        class Handler(BaseHTTPRequestHandler):
            server: _Lxd

            def do_GET(self) -> None:
                self.server.asked += 1
                config = self.server.config
                body = json.dumps({"metadata": {"expanded_config": config}}).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_words: object) -> None: ...

            def address_string(self) -> str:
                return "unix"

        super().__init__(str(path), Handler)


def has_a_standby(state: Path, socket: str) -> None:
    """That of web, in the LXD with this socket."""
    (state / "standbys").mkdir()
    (state / "rootfs").mkdir()
    entry = {"socket": str(state / socket), "container": "web", "rootfs": str(state / "rootfs")}
    (state / "standbys/web.json").write_text(json.dumps(entry))


@pytest.fixture
def lxd(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[_Lxd]:
    """`param`: the status of its answers, and the container's role."""
    has_a_standby(tmp_path, "lxd")
    with _Lxd(tmp_path / "lxd", *request.param) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        server.shutdown()


def said_to_the_receiver(command: str, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_ORIGINAL_COMMAND", command)
    receive.main(["web", "--state-dir", str(state)], standalone_mode=False)


@pytest.mark.parametrize(
    ("lxd", "answer"),
    [((200, "standby"), "primary\n"), ((200, "active"), "standby\n"), ((200, "spare"), "standby elsewhere\n")],
    indirect=["lxd"],
)
@pytest.mark.usefixtures("lxd")
def test_a_vm_that_boots_is_told_who_serves(
    answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said_to_the_receiver("who-serves", tmp_path, monkeypatch)
    assert capsys.readouterr().out == answer


@pytest.mark.parametrize(
    ("lxd", "answer"), [((200, "standby"), "primary\n"), ((200, "spare"), "standby elsewhere\n")], indirect=["lxd"]
)
def test_a_vm_whose_standby_does_not_serve_is_given_no_order(
    lxd: _Lxd, answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that was left there would have it copy over what it has written since."""
    lxd.config[ORDER_KEY] = str(Given(7, Order.COPY, 1.0))
    said_to_the_receiver("who-serves", tmp_path, monkeypatch)
    assert capsys.readouterr().out == answer


#: Each takes from 2 to 20 ms to load, at every heartbeat of every VM.
UNNEEDED = ["click", "logging", "http", "email", "dataclasses", "inspect", "subprocess", "ctypes.util", "sqlite3"]
STARTED = f"""
import sys
from vcrecovery.__main__ import main
try:
    main()
finally:
    print(*(name for name in {UNNEEDED} if name in sys.modules), file=sys.stderr)
"""


def started_by_sshd(words: list[str], command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SSH_ORIGINAL_COMMAND": command}
    called = [sys.executable, "-c", STARTED, *words]
    return subprocess.run(called, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("lxd", [(200, "standby")], indirect=True)
@pytest.mark.usefixtures("lxd")
def test_what_sshd_starts_loads_no_more_than_it_needs(tmp_path: Path) -> None:
    done = started_by_sshd(["receive", "web", "--state-dir", str(tmp_path)], "who-serves")
    assert (done.returncode, done.stdout, done.stderr) == (0, "primary\n", "\n")


@pytest.mark.parametrize("lxd", [(200, "standby")], indirect=True)
@pytest.mark.usefixtures("lxd")
def test_it_says_the_same_by_the_command_line(tmp_path: Path) -> None:
    words = ["receive", "--state-dir", str(tmp_path), "web"]
    assert started_by_sshd(words, "who-serves").stdout == "primary\n"


@pytest.mark.parametrize(
    ("service", "command", "status", "said"),
    [
        ("web", "", 2, "vcrecovery: error: receive is for sshd: it takes rsync's files, and gives no shell"),
        ("web", "id", 3, "vcrecovery: error: refused: only rsync may write here, not 'id'"),
        ("web", "who-serves {", 4, "vcrecovery: error: LXD ({folder}/none) does not answer: "),
        ("mail", "who-serves", 2, "vcrecovery: error: no standby of service 'mail' is on this machine; run the role"),
    ],
)
def test_what_it_refuses_is_told_in_the_same_words(
    service: str, command: str, status: int, said: str, tmp_path: Path
) -> None:
    has_a_standby(tmp_path, "none")
    shortest = started_by_sshd(["receive", service, "--state-dir", str(tmp_path)], command)
    by_the_command_line = started_by_sshd(["receive", "--state-dir", str(tmp_path), service], command)
    assert shortest.stderr.startswith(said.format(folder=tmp_path)), shortest.stderr
    assert [shortest.returncode, by_the_command_line.returncode] == [status] * 2
    assert shortest.stderr.splitlines()[0] == by_the_command_line.stderr.splitlines()[0]


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.0\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\n{"])
def test_an_answer_of_lxd_that_breaks_off_is_none(answer: bytes, tmp_path: Path) -> None:
    has_a_standby(tmp_path, "lxd")

    class Broken(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1024)
            self.request.sendall(answer)

    with socketserver.UnixStreamServer(str(tmp_path / "lxd"), Broken) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        with pytest.raises(ExternalError, match="does not answer"):
            receiver.find_target(tmp_path, "web")


@pytest.mark.parametrize(
    ("lxd", "keys", "answer"),
    [
        ((200, "standby"), {"epoch": "3"}, "primary rank=6\n"),
        ((200, "standby"), {"epoch": "3", "taken-back": "3"}, "primary rank=7\n"),
        ((200, "standby"), {"epoch": "1", "taken-back": "1"}, "primary rank=3\n"),
        ((200, "standby"), {"epoch": "0", "taken-back": "0"}, "primary\n"),
        ((200, "standby"), {"epoch": "4", "taken-back": "3", "has-all-of": "sec1"}, "primary rank=8 has-all-of=sec1\n"),
        ((200, "active"), {"epoch": "4", "waits-on": "sec2"}, "standby rank=8\n"),
        ((200, "spare"), {"epoch": "4", "waits-on": "sec2"}, "elsewhere\n"),
    ],
    indirect=["lxd"],
)
def test_how_much_its_word_counts_is_told(
    lxd: _Lxd,
    keys: dict[str, str],
    answer: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lxd.config |= {f"user.vcrecovery.{key}": value for key, value in keys.items()}
    said_to_the_receiver("who-serves", tmp_path, monkeypatch)
    assert capsys.readouterr().out == answer


@pytest.mark.parametrize("lxd", [(200, "spare")], indirect=True)
def test_one_that_waits_elsewhere_takes_no_files(lxd: _Lxd, tmp_path: Path) -> None:
    lxd.config["user.vcrecovery.waits-on"] = "sec2"
    with pytest.raises(RefusedError, match="refused: the standby of web waits on sec2 now"):
        receiver.find_target(tmp_path, "web")


@pytest.mark.parametrize("lxd", [(404, ""), (200, ""), (200, "drill")], indirect=True)
def test_a_vm_is_told_nothing_that_is_not_known(lxd: _Lxd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lxd.config[ORDER_KEY] = str(Given(7, Order.COPY, 1.0))
    with pytest.raises(ExternalError, match=r"container web.*; run the role `secondary`$"):
        said_to_the_receiver("who-serves", tmp_path, monkeypatch)


@pytest.mark.parametrize("lxd", [(200, "active")], indirect=True)
def test_a_vm_that_reports_is_told_its_turn(
    lxd: _Lxd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = Given(7, Order.LAST, 1.0)
    lxd.config[ORDER_KEY] = str(given)
    report = Report("", "debian 12 x86_64")
    said_to_the_receiver(f"who-serves {json.dumps(report._asdict())}", tmp_path, monkeypatch)
    assert capsys.readouterr().out == "standby last 7\n"
    heard = report_in((tmp_path / "templates" / REPORT).read_bytes(), given)
    assert heard is not None
    assert (heard.system, heard.epoch) == ("debian 12 x86_64", 0)
    with pytest.raises(RefusedError, match="a report that is no JSON"):
        said_to_the_receiver("who-serves ; id", tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("lxd", "order", "why"),
    [
        ((200, "active"), None, "no failback of web copies files now; vcrecovery failback web"),
        ((200, "active"), Order.HOLD, "no failback of web copies files now"),
        ((200, "standby"), None, "no failback of web copies files now"),
        ((200, "standby"), Order.COPY, "web is not served by its standby"),
        ((200, ""), Order.LAST, "web is not served by its standby"),
    ],
    indirect=["lxd"],
)
def test_files_are_given_to_a_failback_only(
    lxd: _Lxd, order: Order | None, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if order is not None:
        lxd.config[ORDER_KEY] = str(Given(7, order, 1.0))
    noted: list[str] = []
    monkeypatch.setattr("syslog.syslog", lambda _level, line: noted.append(line))
    with pytest.raises(RefusedError, match=why):
        said_to_the_receiver(READING[0], tmp_path, monkeypatch)
    assert why in noted[0]
    # It writes nothing, and is no session.
    assert not (tmp_path / "standbys/web.lock").exists()


KEEPING = "user.vcrecovery.keeping"


@pytest.mark.parametrize("lxd", [(200, "standby")], indirect=True)
def test_a_session_waits_while_a_failback_keeps_what_the_standby_was(lxd: _Lxd, tmp_path: Path) -> None:
    lxd.config[KEEPING] = "true"
    came: list[tuple[receiver.Target, int]] = []
    session = threading.Thread(target=lambda: came.append(receiver._join(tmp_path, "web")), daemon=True)
    session.start()
    wait_for(lambda: lxd.asked > 1, "a second look")
    # It is none of those that write: whoever sets the standby aside does not wait for it.
    with set_aside(tmp_path, "web", 10):
        assert not came
        del lxd.config[KEEPING]
    session.join(30)
    assert [target.rootfs for target, _ in came] == [tmp_path / "rootfs"]
    assert are_files_arriving(tmp_path, "web")


@pytest.mark.parametrize("lxd", [(200, "standby")], indirect=True)
def test_a_session_does_not_wait_for_ever_for_that(lxd: _Lxd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lxd.config[KEEPING] = "true"
    monkeypatch.setattr(receiver, "WAIT_SECONDS", 0.1)
    with pytest.raises(ExternalError, match="a failback of web keeps what its standby was; try again later"):
        said_to_the_receiver(OF_LSYNCD, tmp_path, monkeypatch)


@pytest.mark.parametrize("lxd", [(200, "standby")], indirect=True)
def test_who_serves_is_told_meanwhile(
    lxd: _Lxd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lxd.config[KEEPING] = "true"
    said_to_the_receiver("who-serves", tmp_path, monkeypatch)
    assert capsys.readouterr().out == "primary\n"
