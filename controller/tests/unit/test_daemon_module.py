"""The module `vcrecovery.standby.daemon`: a daemon that has not read its files as they are is restarted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

MODULE = Path(__file__).resolve().parents[3] / "plugins/modules/daemon.py"
#: Says what it is told, and that it runs since the monotonic clock's second in the file `start`.
SYSTEMCTL = """#!/bin/sh
case $1 in
  show) echo "ActiveState=active"; echo "UnitFileState=enabled"; echo "NeedDaemonReload=no"
        echo "ExecMainStartTimestampMonotonic=$(cat "$0.start")";;
  *) echo "$*" >> "$0.said";;
esac
"""

Daemon = Callable[..., dict[str, Any]]


def _run(**arguments: Any) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, MODULE],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    assert "failed" not in result, result
    return result


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    file = tmp_path / "plan.yml"
    file.write_text("services: {}\n")
    _since(file, -3600)
    return file


def _since(file: Path, seconds: float) -> None:
    """Lets the file be from so many seconds ahead."""
    os.utime(file, (time.time() + seconds, time.time() + seconds))


@pytest.fixture
def by_hand(tmp_path: Path, plan: Path) -> Iterator[Daemon]:
    record = tmp_path / "run/sleeper.json"

    def daemon(**more: Any) -> dict[str, Any]:
        words = {"argv": ["/bin/sleep", "600"], "reads": [str(plan), str(tmp_path / "missing")], **more}
        where = {"run_dir": str(tmp_path / "run"), "log_dir": str(tmp_path / "log")}
        return _run(name="sleeper", supervisor="process", **where, **words)

    yield daemon
    if record.exists():
        os.kill(json.loads(record.read_text())["pid"], signal.SIGKILL)


@pytest.fixture
def under_systemd(tmp_path: Path, plan: Path, monkeypatch: pytest.MonkeyPatch) -> Daemon:
    (tmp_path / "bin").mkdir()
    stub = tmp_path / "bin/systemctl"
    stub.write_text(SYSTEMCTL)
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", f"{stub.parent}:{os.environ['PATH']}")
    stub.with_name("systemctl.start").write_text(f"{(time.monotonic() - 600) * 1e6:.0f}")

    def daemon(**more: Any) -> dict[str, Any]:
        words = {"argv": ["/bin/sleep"], "reads": [str(plan)], "run_dir": str(tmp_path / "run"), **more}
        return _run(name="sleeper", supervisor="systemd", **words)

    return daemon


def test_by_hand_it_is_restarted_when_what_it_reads_is_newer(by_hand: Daemon, plan: Path) -> None:
    first = by_hand()
    assert first["changed"] is True
    assert by_hand() == by_hand() | {"changed": False, "pid": first["pid"]}
    _since(plan, 0)
    rehearsed = by_hand(_ansible_check_mode=True)
    assert (rehearsed["changed"], by_hand(reads=[])["pid"]) == (True, first["pid"])
    second = by_hand()
    assert (second["changed"], second["pid"] != first["pid"]) == (True, True)
    assert by_hand()["changed"] is False


def test_a_file_from_the_future_does_not_restart_it_for_ever(by_hand: Daemon, plan: Path) -> None:
    by_hand()
    _since(plan, 3600)
    assert by_hand()["changed"] is False


def test_a_folder_is_as_new_as_what_was_put_into_it_last(by_hand: Daemon, tmp_path: Path) -> None:
    folder = tmp_path / "program"
    folder.mkdir()
    _since(folder, -3600)
    assert by_hand(reads=[str(folder)])["changed"] is True
    assert by_hand(reads=[str(folder)])["changed"] is False
    (folder / "new").touch()
    assert by_hand(reads=[str(folder)])["changed"] is True


def test_one_that_was_sent_sighup_has_read_its_files(by_hand: Daemon, plan: Path) -> None:
    words = ["/bin/sh", "-c", "trap : HUP; while :; do sleep 0.1; done"]
    pid = by_hand(argv=words)["pid"]
    _since(plan, 0)
    assert by_hand(argv=words, state="reloaded")["changed"] is True
    again = by_hand(argv=words)
    assert (again["changed"], again["pid"]) == (False, pid)
    time.sleep(0.02)
    _since(plan, 0)
    assert by_hand(argv=words)["changed"] is True


def test_under_systemd_it_is_restarted_when_what_it_reads_is_newer(
    under_systemd: Daemon, plan: Path, tmp_path: Path
) -> None:
    said, start = tmp_path / "bin/systemctl.said", tmp_path / "bin/systemctl.start"
    found = under_systemd()
    assert (found["changed"], found["started"], said.exists()) == (False, False, False)
    _since(plan, -300)
    assert under_systemd(_ansible_check_mode=True)["changed"] is True
    assert not said.exists()
    found = under_systemd()
    assert (found["changed"], found["started"]) == (True, True)
    assert said.read_text().splitlines()[-1] == "restart sleeper.service"
    start.write_text(f"{time.monotonic() * 1e6:.0f}")
    assert under_systemd()["changed"] is False


def test_under_systemd_a_reload_counts_too(under_systemd: Daemon, plan: Path) -> None:
    _since(plan, -300)
    assert under_systemd(state="reloaded")["changed"] is True
    assert under_systemd()["changed"] is False


@pytest.mark.parametrize("start", ["0", ""], ids=["no process", "a timer"])
def test_under_systemd_what_has_no_process_reads_nothing(
    under_systemd: Daemon, plan: Path, tmp_path: Path, start: str
) -> None:
    (tmp_path / "bin/systemctl.start").write_text(start)
    _since(plan, 0)
    assert under_systemd()["changed"] is False
