"""From the archive to the program, where the collection is read-only: as somebody without a clone installs it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from vcrecovery_lab.built_collection import BuiltCollection, build_and_install
from vcrecovery_lab.layout import CHECKOUT

pytestmark = pytest.mark.lab


def test_an_installed_read_only_collection_installs_the_program(tmp_path: Path) -> None:
    built = build_and_install(tmp_path)
    venv = tmp_path / "venv"
    inventory = yaml.safe_load((built.installed / "inventory/group_vars/all/main.yml").read_text())
    role = {"name": "vcrecovery.standby.controller"}
    parts = ("install", "plan", "command")
    tasks = [{"ansible.builtin.include_role": role | {"tasks_from": part}} for part in parts]
    variables = {
        "controller_packages": [],
        "controller_venv": str(venv),
        "controller_config_dir": str(tmp_path / "etc"),
        "controller_command_dir": str(tmp_path),
        "controller_man_dir": str(tmp_path / "man"),
        "controller_completion_dir": str(tmp_path / "completion"),
        "controller_supervisor": "process",
        "controller_run_dir": str(tmp_path / "run"),
        "vcrecovery_plan": inventory["vcrecovery_plan"] | {"state_dir": str(tmp_path / "state")},
    }
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": variables}
    play_file = tmp_path / "play.yml"
    play_file.write_text(json.dumps([play | {"tasks": tasks}]))

    assert _changed(built, play_file, "--check") > 0
    assert not venv.exists()
    assert _changed(built, play_file) == 11
    checked: list[str | Path] = [venv / "bin/vcrecovery", "plan", "check", tmp_path / "etc/plan.yml"]
    assert subprocess.run(checked, capture_output=True, check=True, timeout=60).stdout.endswith(b"good: 3 service(s)\n")
    assert (venv / "share/man/man1/vcrecovery.1").is_file()
    assert _changed(built, play_file) == 0
    assert _changed(built, play_file, "--check") == 0

    verify = ("collection", "verify", "--offline", "-p", built.collections, "vcrecovery.standby")
    assert "Successfully verified" in built.ansible("ansible-galaxy", *verify)


def _changed(built: BuiltCollection, play: Path, *words: str) -> int:
    """How many tasks have changed something, in a mount namespace in which nobody can write to the collections."""
    read_only = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    before = ("unshare", "--mount", "--", "sh", "-c", read_only, str(built.collections))
    printed = built.ansible("ansible-playbook", "-i", "localhost,", play, *words, before=before)
    found = re.search(r"changed=(\d+) .*failed=0", printed)
    assert found is not None, printed
    return int(found[1])


@pytest.mark.parametrize("pip", [True, False], ids=["pip", "no_pip"])
def test_the_wheel_is_built_once_by_any_python(pip: bool, tmp_path: Path) -> None:
    python = Path(sys.executable)
    if not pip:
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", tmp_path / "venv"], check=True, timeout=60)
        python = tmp_path / "venv/bin/python"
    build: list[str | Path] = [
        python,
        "-B",
        CHECKOUT / "roles/controller/files/build_wheel.py",
        CHECKOUT / "controller",
        tmp_path / "cache",
    ]
    wheels = []
    for environment in (os.environ, os.environ | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}):
        built = subprocess.run(build, capture_output=True, text=True, check=True, timeout=200, env=environment)
        wheels.append(Path(built.stdout.strip()))
    assert wheels[0] == wheels[1]
    assert list((tmp_path / "cache").rglob("*")) == [wheels[0].parent, wheels[0]]


def test_without_any_way_to_build_it_says_what_to_do(tmp_path: Path) -> None:
    hidden = "import importlib.util, runpy, sys\nimportlib.util.find_spec = lambda name: None\n"
    script = CHECKOUT / "roles/controller/files/build_wheel.py"
    words = f"sys.argv[1:] = [{str(CHECKOUT / 'controller')!r}, {str(tmp_path)!r}]\n"
    (tmp_path / "run.py").write_text(hidden + words + f"runpy.run_path({str(script)!r}, run_name='__main__')\n")
    done = subprocess.run(
        [sys.executable, tmp_path / "run.py"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert re.fullmatch(r"build_wheel.py: .* has neither pip nor ensurepip .*: install either .*\n", done.stderr)
