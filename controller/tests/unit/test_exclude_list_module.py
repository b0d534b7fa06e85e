"""The module `vcrecovery.standby.exclude_list`, run by Ansible itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from package_trees import make_dpkg, make_file

CHECKOUT = Path(__file__).resolve().parents[3]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make_dpkg(tmp_path / "root", {"firmware-x": [b"/lib/firmware/x"], "bash": [b"/bin/bash", b"/lib/a"]})
    for path in (b"/lib/firmware/x", b"/bin/bash", b"/lib/a"):
        make_file(root, path)
    return root


def run_module(root: Path, *words: str, **arguments: Any) -> dict[str, Any]:
    """Runs `ansible localhost -m ...`; what the module returned."""
    arguments = {"root": str(root), "lists": {"lsyncd": str(root.parent / "exclude.lsyncd")}, **arguments}
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("ansible")), "localhost", "-i", "localhost,", "-c", "local",
            "-m", "vcrecovery.standby.exclude_list", "-a", json.dumps(arguments), *words,
        ],
        cwd=CHECKOUT,
        env={**os.environ, "ANSIBLE_STDOUT_CALLBACK": "json", "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )  # fmt: skip
    printed = json.loads(done.stdout[done.stdout.index("{") :])
    result: dict[str, Any] = printed["plays"][0]["tasks"][0]["hosts"]["localhost"]
    return result


def test_changed_unchanged_and_check_mode(root: Path) -> None:
    written = root.parent / "exclude.lsyncd"
    foretold = run_module(root, "--check", profile="vm-to-container")
    assert foretold["changed"] is True
    assert not written.exists()
    first = run_module(root, profile="vm-to-container")
    assert (first["changed"], first["backend"], first["written"]) == (True, "dpkg", [str(written)])
    assert "/lib/firmware\n" in written.read_text()
    before = written.stat()
    for words in ([], ["--check"]):
        again = run_module(root, *words, profile="vm-to-container")
        assert (again["changed"], again["written"]) == (False, [])
    assert written.stat().st_ino == before.st_ino
    assert run_module(root, "--check", profile="vm-to-container", keep=["firmware-x"])["changed"] is True


def test_a_mistake_is_one_line_and_leaves_the_list(root: Path) -> None:
    written = root.parent / "exclude.lsyncd"
    written.write_text("/good\n")
    failed = run_module(root, packages=["firmwar-x"])
    assert failed["failed"] is True
    assert failed["msg"] == "--packages 'firmwar-x' matches no installed package: did you mean firmware-x?"
    assert written.read_text() == "/good\n"
