"""What the receiver takes, word by word."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import socketserver
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from vcrecovery.cli.receive import receive
from vcrecovery.errors import ExternalError, RefusedError
from vcrecovery.transfer.receiver import server_arguments

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
SEED = "-aHAXS --numeric-ids --delete --force --exclude-from={list}"


@pytest.mark.parametrize(
    "options",
    [WHOLE_TREE, f"{WHOLE_TREE} --8-bit-output --out-format='%i %n' --info=progress2", NAMED_PATHS, SEED, NO_NODES],
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


@pytest.mark.parametrize(
    "command",
    [
        "",
        "id",
        "sh -c id",
        "rsync",
        "rsync --daemon",
        "rsync --server --daemon .",
        "/srv/rsync --server -r . /",
        "rsync --server --sender -r . /",
        "rsync --server -r --sender . /",
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


REFUSED_NAMESPACE = """\
import ctypes, os, types
from vcrecovery.errors import ExternalError
from vcrecovery.transfer import receiver
receiver._libc = types.SimpleNamespace(unshare=lambda _flags: -1)
entry = {"Isuid": True, "Isgid": True, "Nsid": 0, "Hostid": 100000, "Maprange": 65536}
try:
    receiver._enter_user_namespace([entry], os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
except ExternalError as error:
    print(error.message)
"""


def test_a_session_that_gets_no_namespace_leaves_no_process() -> None:
    """It would hold the session's lock for good. Here it would keep the output open."""
    with subprocess.Popen(
        [sys.executable, "-c", REFUSED_NAMESPACE], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            said, _ = process.communicate(timeout=60)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert said.startswith("unshare user namespace: ")


class _Lxd(socketserver.UnixStreamServer):
    """Answers with one container, in that role."""

    def __init__(self, path: Path, status: int, role: str) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                config = {"user.vcrecovery.role": role, "user.vcrecovery.ready": "true"}
                body = json.dumps({"metadata": {"expanded_config": config}}).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_words: object) -> None: ...

            def address_string(self) -> str:
                return "unix"

        super().__init__(str(path), Handler)


@pytest.mark.parametrize(
    ("status", "role", "answer"),
    [(200, "standby", "primary\n"), (200, "active", "standby\n"), (404, "", ""), (200, "", ""), (200, "drill", "")],
)
def test_a_vm_that_boots_is_told_who_serves(
    status: int,
    role: str,
    answer: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "standbys").mkdir()
    entry = {"socket": str(tmp_path / "lxd"), "container": "web", "rootfs": str(tmp_path / "rootfs")}
    (tmp_path / "standbys/web.json").write_text(json.dumps(entry))
    monkeypatch.setenv("SSH_ORIGINAL_COMMAND", "who-serves")
    server = _Lxd(tmp_path / "lxd", status, role)
    with server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        words = ["web", "--state-dir", str(tmp_path)]
        if answer:
            receive.main(words, standalone_mode=False)
        else:
            with pytest.raises(ExternalError, match="container web"):
                receive.main(words, standalone_mode=False)
        server.shutdown()
    assert capsys.readouterr().out == answer
