"""Every verb is killed at each of its changes by some test, or changes nothing. Here, those that only write files."""

from __future__ import annotations

import ast
import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from test_spare import with_a_spare

from lab.controllers import Controllers
from vcrecovery.cli.main import VERBS
from vcrecovery.detect.spool import waiting
from vcrecovery.errors import ExitCode
from vcrecovery.relay.own_engine import start_engine

TESTS = Path(__file__).parent.parent
KILLED = -9
R_KILLED, R_STANDBY = "lab/test_r_killed.py", "lab/test_r_killed_standby.py"
HERE = "unit/test_killed_verbs.py"
#: Verb -> the tests in which it is killed before each of its changes.
CHANGES = {
    "acknowledge": {(R_KILLED, "test_words_about_protection")},
    "commit": {("test_kill_anywhere.py", "test_killed_at_in_a_commit")},
    "event": {(HERE, "test_event")},
    "exclude-list": {(HERE, "test_exclude_list")},
    "drill": {("lab/test_s_drill.py", "test_killed_at_any_step")},
    "failback": {
        ("test_kill_anywhere.py", "test_killed_at_in_a_failback"),
        ("test_kill_anywhere.py", "test_killed_at_on_the_way_back_of_a_failback"),
    },
    "failover": {
        (R_KILLED, "test_failover_of_several"),
        (R_KILLED, "test_restore_points_and_a_failover_to_one"),
        (R_KILLED, "test_a_virtual_address"),
        ("lab/test_s_hypervisor.py", "test_the_next_call_finishes_the_job_once"),
        ("test_kill_anywhere.py", "test_killed_at"),
    },
    "drain": {("lab/test_r_killed_move.py", "test_a_drain")},
    "undrain": {("lab/test_r_killed_move.py", "test_an_undrain")},
    "rebalance": {("lab/test_r_killed_move.py", "test_a_rebalance")},
    "move": {
        ("lab/test_r_killed_move.py", "test_a_move"),
        ("lab/test_r_killed_waiting_move.py", "test_at_changes_of_a_move_there_and_back"),
        ("test_waiting_moves.py", "test_killed_at"),
    },
    "switchover": {
        ("test_kill_anywhere.py", "test_killed_at_in_a_switchover"),
        ("test_kill_anywhere.py", "test_killed_at_on_the_way_back"),
    },
    "suspend": {(R_KILLED, "test_words_about_protection")},
    "receive": {(R_STANDBY, "test_receive")},
    "relay": {(HERE, "test_relay")},
    "report": {(HERE, "test_report")},
    "rollback": {("test_kill_anywhere.py", "test_killed_at_in_a_rollback")},
    "resume": {(R_KILLED, "test_words_about_protection")},
    "secondary on": {("test_secondary_on_demand.py", "test_killed_at")},
    "secondary off": {("test_secondary_on_demand.py", "test_killed_while_it_is_powered_off")},
    "secondary mount": {("lab/test_t_loop_disk.py", "test_killed_while_it_mounts")},
    "secondary unmount": {("lab/test_t_loop_disk.py", "test_killed_while_it_unmounts")},
    "plan init": {(HERE, "test_plan_init")},
    "standby apply": {(R_STANDBY, "test_apply")},
    "standby admit": {(HERE, "test_standby_admit")},
    "standby reset": {
        (R_KILLED, "test_standby_reset"),
        (R_KILLED, "test_an_old_primary_that_comes_back"),
        (R_KILLED, "test_a_virtual_address"),
    },
    "standby seed": {(R_STANDBY, "test_seed")},
    "standby set": {
        (R_KILLED, "test_every_change_of_mode"),
        (R_KILLED, "test_the_refresh_of_a_frozen_standby"),
        ("lab/test_p_modes.py", "test_killed_at_every_step"),
    },
    "standby snapshot": {(R_KILLED, "test_restore_points_and_a_failover_to_one")},
    "watch": {
        (R_KILLED, "test_the_watcher"),
        (R_KILLED, "test_an_old_primary_that_comes_back"),
        (R_KILLED, "test_a_virtual_address"),
    },
}
#: Those that change nothing: some are run to the end with nothing that counts as a change
#: (`test_whoever_only_looks_changes_nothing`); the others print what is in them, or tell what they see.
LOOKS = {
    "completion",
    "cost",
    "explain",
    "history",
    "metrics",
    "notify test",
    "plan advise",
    "plan check",
    "plan schema",
    "snmp-agent notify",
    "snmp-agent table",
    "standby modes",
    "standby snapshots",
    "standby wait",
    "status",
}


def test_every_verb_is_in_the_table() -> None:
    assert set(all_verbs()) == CHANGES.keys() | LOOKS
    assert not CHANGES.keys() & LOOKS


def all_verbs() -> Iterator[str]:
    for name, (module, attribute, _) in VERBS.items():
        command = getattr(importlib.import_module(f"vcrecovery.cli.{module}"), attribute)
        if isinstance(command, click.Group):
            yield from (f"{name} {below}" for below in command.commands)
        else:
            yield name


def test_every_test_of_the_table_is_there() -> None:
    for file, name in sorted(set().union(*CHANGES.values())):
        found = ast.parse((TESTS / file).read_text()).body
        assert name in {entry.name for entry in found if isinstance(entry, ast.FunctionDef)}, (file, name)


class Calls:
    """Of verbs that need no plan."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._controllers = Controllers({})

    def __call__(self, before: str, *words: str) -> int:
        out, err = self._folder / "out", self._folder / "err"
        status = self._controllers.wait(self._controllers.start(before, list(words), out, err))
        assert "Traceback" not in err.read_text()
        return status

    def killed_everywhere(self, words: list[str], prepare: Callable[[], None], check: Callable[[], None]) -> int:
        """Killed before each change of a file, then called again; the number of boundaries."""
        for boundary in range(1, 100):
            prepare()
            killed = self(f"{boundary}@files", *words)
            assert self("1000000", *words) == 0
            check()
            if killed == 0:
                return boundary
            assert killed == KILLED
        raise AssertionError("no end")

    def close(self) -> None:
        self._controllers.close()


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Calls]:
    made = Calls(tmp_path_factory.mktemp("calls"))
    try:
        yield made
    finally:
        made.close()


def test_event(calls: Calls, tmp_path: Path) -> None:
    def empty() -> None:
        for path in tmp_path.iterdir():
            path.unlink()

    def is_there() -> None:
        assert [path.name for path in tmp_path.iterdir()] == ["12"]
        assert waiting(tmp_path) == ["12"]

    assert calls.killed_everywhere(["event", "12", "--spool", str(tmp_path)], empty, is_there) >= 2


def test_standby_admit(calls: Calls, plan_file: Path) -> None:
    plan = with_a_spare(plan_file)
    register = plan.state_dir / "standbys"
    words = ["standby", "admit", "--on", "sec2", "--plan", str(plan_file)]

    def empty() -> None:
        shutil.rmtree(register, ignore_errors=True)

    def is_there() -> None:
        assert json.loads((register / "web.json").read_text())["container"] == "web"

    assert calls.killed_everywhere(words, empty, is_there) >= 3
    assert calls("1000000", *words[:3], "sec9", *words[4:]) == ExitCode.USAGE


def test_plan_init(calls: Calls, tmp_path: Path) -> None:
    """Called again it writes the file, or finds it whole, and leaves it alone."""
    file, seen = tmp_path / "plan.yml", set()
    words = [
        "plan",
        "init",
        "--hypervisor",
        "hv1=test:///default",
        "--lxd",
        "/nonexistent",
        "--no-ports",
        "-o",
        str(file),
    ]
    for boundary in range(1, 100):
        file.unlink(missing_ok=True)
        killed, was_there = calls(f"{boundary}@files", *words), file.exists()
        assert calls("1000000", *words) == (ExitCode.USAGE if was_there else 0)
        seen.add(file.read_text())
        if killed == 0:
            break
        assert killed == KILLED
    assert boundary >= 3
    assert len(seen) == 1


def test_exclude_list(calls: Calls, tmp_path: Path) -> None:
    root, lists = tmp_path / "root", tmp_path / "lists"
    dpkg = root / "var/lib/dpkg"
    (dpkg / "info").mkdir(parents=True)
    (root / "usr").mkdir()
    (root / "usr/tool").touch()
    (dpkg / "status").write_text(
        "Package: tool\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1\nMaintainer: x\nDescription: x\n"
    )
    (dpkg / "info/tool.list").write_text("/.\n/usr\n/usr/tool\n")
    lists.mkdir()

    def old() -> None:
        for path in lists.iterdir():
            path.unlink()
        (lists / "list").write_text("/old\n")
        (lists / ".list.20241122").write_text("the user's own\n")

    def new() -> None:
        assert sorted(path.name for path in lists.iterdir()) == [".list.20241122", "list"]
        assert "/usr" in (lists / "list").read_text()

    words = ["exclude-list", "--packages", "tool", "--root", str(root), "--output", str(lists / "list")]
    assert calls.killed_everywhere(words, old, new) >= 4


def test_report(calls: Calls, local_plan: Path, tmp_path: Path) -> None:
    """Each of its files is the old one or the new one, whole."""
    kept = tmp_path / "reports"
    read_plan = ["report", "--within", "0.1", "--plan", str(local_plan), "--output", str(kept)]

    def old() -> None:
        kept.mkdir(exist_ok=True)
        for path in kept.iterdir():
            path.unlink()

    def new() -> None:
        assert sorted(path.suffix for path in kept.iterdir()) == [".html", ".json", ".md"]
        for path in kept.iterdir():
            assert path.read_text().endswith("\n")

    assert calls.killed_everywhere(read_plan, old, new) >= 6


STARTS = """\
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from lab.every_change import count_changes
from lab.killed_controller import Countdown
from vcrecovery.relay.own_engine import start_engine
count_changes(Countdown({boundary}).pass_one, ["files"])
start_engine(Path({file!r}), "", "", 0.0)
"""


def test_relay(tmp_path: Path) -> None:
    """Senders of informs remember the boots: an engine that has spoken never starts again with the same number."""
    file, boots = tmp_path / "relay/engine.json", 0
    for boundary in range(1, 20):
        script = STARTS.format(tests=str(TESTS), boundary=boundary, file=str(file))
        status = subprocess.run([sys.executable, "-c", script], timeout=100, check=False).returncode
        engine = start_engine(file, "", "", 0.0)
        assert engine.boots > boots
        boots = engine.boots
        assert [path.name for path in file.parent.iterdir()] == ["engine.json"]
        assert json.loads(file.read_text())["boots"] == boots
        if status == 0:
            break
        assert status == KILLED
    # The folder, what is new in it, and that in its place.
    assert boundary >= 3
