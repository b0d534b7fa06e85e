"""The planned move of the lab's service to its standby: a client writes all the time, and nothing of it is lost."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from typing import Any

import pytest

from vcrecovery.errors import ExitCode
from vcrecovery_lab.machine import qemu_pid
from vcrecovery_lab.run import LabError, run

from .conftest import Lab
from .waiting import wait_for

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]

PORT = 8088
#: Answers once a row is on the disk, with the name of the machine that has it.
WRITER = f"""\
import os, socket
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        folder = "/srv/rows"
        file = os.open(folder + self.path, os.O_WRONLY | os.O_CREAT, 0o644)
        os.write(file, b"row")
        os.fsync(file)
        os.close(file)
        top = os.open(folder, os.O_RDONLY)
        os.fsync(top)
        os.close(top)
        answer = socket.gethostname().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *words):
        pass

os.makedirs("/srv/rows", exist_ok=True)
HTTPServer(("", {PORT}), Handler).serve_forever()
"""
UNIT = """\
[Service]
ExecStart=/usr/bin/python3 /usr/local/bin/rows.py
[Install]
WantedBy=multi-user.target
"""


class Client:
    """Writes row after row to whoever has the service's name; `acknowledged`: row -> by whom."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="client")
        self.acknowledged: dict[int, str] = {}
        #: When the first answer of each machine came, and the last one.
        self.first: dict[str, float] = {}
        self.last: dict[str, float] = {}

    def _run(self) -> None:
        row = 0
        while not self._stop.wait(0.02):
            row += 1
            for address in self._lab.dig(self._lab.layout.name, "A"):
                connection = HTTPConnection(address, PORT, timeout=3)
                try:
                    connection.request("POST", f"/{row}")
                    answer = connection.getresponse()
                    by = answer.read().decode()
                except (OSError, HTTPException):
                    continue
                finally:
                    connection.close()
                self.acknowledged[row] = by
                self.last[by] = time.time()
                self.first.setdefault(by, self.last[by])

    def by(self, machine: str) -> list[int]:
        return [row for row, by in list(self.acknowledged.items()) if by == machine]

    def __enter__(self) -> Client:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join(30)


def status(lab: Lab) -> dict[str, Any]:
    (entry,) = json.loads(lab.vcrecovery("status", "--json").stdout)["services"]
    assert isinstance(entry, dict)
    return entry


def heartbeat(lab: Lab) -> dict[str, Any]:
    """The VM's newest, in the standby."""
    found = json.loads((lab.rootfs / "var/lib/vcrecovery/heartbeat").read_text())
    assert isinstance(found, dict)
    return found


def in_the_vm(lab: Lab, command: str) -> str:
    """What it prints, in one line; empty while the VM takes no call."""
    with suppress(LabError):
        return " ".join(lab.primary(f"{command} || true", timeout=30).split())
    return ""


def has_booted(lab: Lab) -> bool:
    return in_the_vm(lab, "systemctl is-system-running") in ("running", "degraded")


def newest_episode(lab: Lab) -> dict[str, Any]:
    found = json.loads(lab.vcrecovery("history", "--json").stdout)["episodes"][-1]
    assert isinstance(found, dict)
    return found


def is_well(lab: Lab) -> bool:
    """The VM serves, and what it writes arrives."""
    entry = status(lab)
    age = entry["standby"]["age"]
    fresh = age is not None and age < 60
    return entry["serves"] == "primary" and entry["verdict"] == "healthy" and entry["health"] == "answers" and fresh


@contextmanager
def receiver_stands_still(lab: Lab) -> Iterator[None]:
    pid = json.loads((lab.layout.run_dir / "daemons/vcrecovery-receiver.json").read_text())["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_without_the_last_files_the_vm_serves_again(lab: Lab) -> None:
    wait_for(lambda: is_well(lab), "a healthy service")
    with receiver_stands_still(lab):
        called = lab.vcrecovery("switchover", "web", timeout=600)
    assert called.returncode == ExitCode.EXTERNAL, called.stdout + called.stderr
    assert "web is on its VM again: the VM is off, and its last files have not arrived" in called.stderr
    assert qemu_pid(lab.layout.primary()) is not None
    assert newest_episode(lab)["outcome"] == "taken back"
    instance = lab.lxd.get("web")
    assert instance is not None
    assert (instance.running, instance.config["user.vcrecovery.role"]) == (False, "standby")
    wait_for(lambda: is_well(lab) and has_booted(lab), "the VM to serve again", 300)


def test_a_client_that_writes_all_the_time_loses_nothing(lab: Lab) -> None:
    lab.primary(
        f"cat > /usr/local/bin/rows.py <<'EOF'\n{WRITER}EOF\n"
        f"cat > /etc/systemd/system/rows.service <<'EOF'\n{UNIT}EOF\n"
        "systemctl daemon-reload; systemctl enable --now rows"
    )
    unit = lab.rootfs / "etc/systemd/system/multi-user.target.wants/rows.service"
    wait_for(lambda: unit.is_symlink() and is_well(lab), "the unit in the standby")
    boot = in_the_vm(lab, "cat /proc/sys/kernel/random/boot_id")
    wait_for(lambda: (heartbeat(lab)["final"], heartbeat(lab)["boot"]) == (False, boot), "a heartbeat of this boot")
    vm = lab.layout.primary()
    with Client(lab) as client:
        wait_for(lambda: len(client.by(vm.name)) > 20, "the first rows")
        called = lab.vcrecovery("switchover", "--vm", vm.uuid, timeout=600)
        assert called.returncode == 0, called.stdout + called.stderr
        wait_for(lambda: len(client.by("web")) > 5, "rows in the standby")
    rows = {int(file.name) for file in (lab.rootfs / "srv/rows").iterdir()}
    assert client.acknowledged.keys() - rows == set()
    assert (heartbeat(lab)["final"], heartbeat(lab)["boot"]) == (True, boot)
    assert qemu_pid(vm) is None
    assert status(lab)["serves"] == "standby"
    done = [step["step"] for step in newest_episode(lab)["steps"] if step["ok"]]
    assert done == ["confirm", "shutdown", "last files", "fence", "start", "probe", "switch", "verify"]
    again = lab.vcrecovery("switchover", "web")
    assert (again.returncode, "nothing to do" in again.stdout) == (0, True)
    _return(lab)


def _return(lab: Lab) -> None:
    """By hand, for the tests that follow; what the standby has written since is dropped.

    The VM boots while the standby serves, and nobody holds it: it starts none of its services.
    """
    assert lab.vcrecovery("suspend", "web").returncode == 0
    run(["virsh", "-c", "qemu:///system", "start", lab.layout.primary().name], timeout=60)
    wait_for(lambda: in_the_vm(lab, "systemctl is-active vcrecovery-superseded.target") == "active", "its boot", 300)
    wait_for(lambda: has_booted(lab), "the end of its boot")
    assert in_the_vm(lab, "systemctl is-active nginx rows cron") == "inactive inactive inactive"
    assert "the standby serves: no service is started here" in lab.primary("journalctl -b -u vcrecovery-who-serves")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((lab.layout.plan["services"]["web"]["primary"]["address"], 80), 10).close()
    run(["lxc", "stop", "--force", "web"], timeout=60)
    lab.reset_standby()
    assert lab.vcrecovery("standby", "reset", "web").returncode == 0
    wait_for(lambda: is_well(lab) and has_booted(lab), "the VM to serve again", 300)
    assert lab.vcrecovery("resume", "web").returncode == 0
    assert in_the_vm(lab, "systemctl is-active nginx rows") == "active active"
    lab.primary("systemctl disable --now rows; rm -r /etc/systemd/system/rows.service /usr/local/bin/rows.py /srv/rows")
