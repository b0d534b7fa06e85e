"""`vcrecovery event`: what Zabbix's agent runs. Quick, harmless to repeat, and trusting nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vcrecovery.detect import spool
from vcrecovery.errors import ExitCode


def event(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "vcrecovery", "event", *(str(word) for word in words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    "number", ["", "x", "-1", "1; id", "1.5", "0", "\uff11\uff12", "../1", "1" * 21, "{EVENT.ID}", "$(id)"]
)
def test_only_a_number_is_taken(number: str, tmp_path: Path) -> None:
    done = event("--spool", tmp_path, "--", number)
    assert done.returncode == ExitCode.USAGE
    assert len(done.stderr.strip().splitlines()) == 1
    assert "no event id" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = event("7", "--spool", tmp_path / "none")
    assert done.returncode == ExitCode.EXTERNAL
    assert len(done.stderr.strip().splitlines()) == 1
    assert f"event 7 cannot be put into {tmp_path}/none" in done.stderr


def test_the_same_event_twice_is_one_file(tmp_path: Path) -> None:
    for number in ("12", "12", "0012"):
        assert event(number, "--spool", tmp_path).returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["12"]
    assert spool.waiting(tmp_path) == ["12"]


def test_the_watcher_is_called_when_it_listens(tmp_path: Path) -> None:
    with spool.listening(tmp_path) as sock:
        spool.put(tmp_path, "12")
        sock.settimeout(10)
        assert sock.recv(64) == b"12"
        assert spool.waiting(tmp_path) == ["12"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["12"]


def test_nobody_waits_for_a_watcher_that_does_not_read(tmp_path: Path) -> None:
    with spool.listening(tmp_path):
        for number in range(1, 2000):
            spool.put(tmp_path, str(number))
    assert len(spool.waiting(tmp_path)) == 1000


def test_a_socket_that_a_killed_watcher_left_holds_nobody_up(tmp_path: Path) -> None:
    with spool.listening(tmp_path):
        (tmp_path / "watch.sock").rename(tmp_path / "kept")
    (tmp_path / "kept").rename(tmp_path / "watch.sock")
    spool.put(tmp_path, "12")
    with spool.listening(tmp_path) as sock:
        spool.put(tmp_path, "13")
        sock.settimeout(10)
        assert sock.recv(64) == b"13"


def test_the_folder_of_a_long_path_works(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 100) / ("y" * 100)
    with spool.listening(folder) as sock:
        spool.put(folder, "12")
        sock.settimeout(10)
        assert sock.recv(64) == b"12"


def test_what_else_lies_there_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    for name in ("7x", ".8.1.1", "007", "note"):
        (tmp_path / name).symlink_to(tmp_path / "secret")
    (tmp_path / "9").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "10")
    (tmp_path / "11").mkdir()
    assert sorted(spool.waiting(tmp_path)) == ["10", "11", "9"]
    for name in spool.waiting(tmp_path):
        spool.remove(tmp_path, name)
    assert (tmp_path / "secret").read_text() == "x"
    assert spool.waiting(tmp_path) == ["11"]


def test_only_what_it_needs_is_loaded(tmp_path: Path) -> None:
    """It runs at every repetition of every problem."""
    script = (
        "import sys\nfrom vcrecovery.cli.main import cli\n"
        f"cli.main(['event', '7', '--spool', {str(tmp_path)!r}], standalone_mode=False)\n"
        "print(sorted({'pydantic', 'yaml', 'libvirt', 'pylxd', 'sqlite3', 'dns', 'pyzabbix'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
