"""The operator's own commands, real ones: what hangs, prints without end, ignores signals, or leaves children."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from lab.waiting import wait_for
from vcrecovery.drivers.hook import run_hook
from vcrecovery.drivers.process import run_and_end

#: Seconds: a limit, and what nobody who keeps it reaches, also where the machine stands still; what hangs takes 600.
SHORT, LONG = 0.5, 120.0


def sh(text: str) -> list[str]:
    return ["/bin/sh", "-c", text]


def is_gone(pid: int) -> bool:
    """Also when nobody has waited for it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def until_gone(file: Path) -> None:
    pid = int(file.read_text())
    wait_for(lambda: is_gone(pid), f"the end of process {pid}")


def test_it_gets_the_facts(tmp_path: Path) -> None:
    facts = {"service": "web", "epoch": 3, "cause": 'a "quote"\n$(touch /tmp/x)'}
    assert run_hook(sh(f"cat > {tmp_path}/facts"), facts, 10) == ""
    assert json.loads((tmp_path / "facts").read_text()) == facts


def test_it_need_not_read_them() -> None:
    assert run_hook(["/bin/true"], {"text": "x" * 1_000_000}, 10) == ""


def test_one_that_fails_is_told_with_its_last_line() -> None:
    assert run_hook(sh("echo first; echo no such rule >&2; exit 3"), {}, 10) == "status 3: no such rule"
    assert run_hook(["/bin/false"], {}, 10) == "status 1"
    assert run_hook(sh("kill -9 $$"), {}, 10) == "status -9"


def test_one_that_is_not_there(tmp_path: Path) -> None:
    assert run_hook(["/no/such/command"], {}, 10) == "/no/such/command is not installed"
    assert run_hook([str(tmp_path)], {}, 10) == f"{tmp_path} cannot be run: Permission denied"


def test_one_that_hangs_ends_with_its_child(tmp_path: Path) -> None:
    begun = time.monotonic()
    said = run_hook(sh(f"echo $$ > {tmp_path}/own; sleep 600 & echo $! > {tmp_path}/child; wait"), {}, SHORT)
    assert said == "did not finish within 0.5 s, and was killed"
    assert time.monotonic() - begun < LONG
    until_gone(tmp_path / "own")
    until_gone(tmp_path / "child")


def test_one_that_ignores_sigterm(tmp_path: Path) -> None:
    text = f"trap '' TERM INT HUP; echo $$ > {tmp_path}/own; while :; do sleep 0.1; done"
    assert "was killed" in run_hook(sh(text), {}, SHORT)
    until_gone(tmp_path / "own")


def test_one_that_ends_and_leaves_a_child_is_not_waited_for(tmp_path: Path) -> None:
    """The child has its output still open."""
    begun = time.monotonic()
    assert run_hook(sh(f"sleep 600 & echo $! > {tmp_path}/child; exit 0"), {}, 600) == ""
    assert time.monotonic() - begun < LONG
    until_gone(tmp_path / "child")


def test_one_that_prints_without_end() -> None:
    begun, before = time.monotonic(), Path("/proc/self/statm").read_text().split()[1]
    said = run_hook(["/usr/bin/yes", "y" * 1000], {}, 1.0)
    assert said.startswith("did not finish within 1 s, and was killed: yyy")
    assert len(said) < 300
    assert time.monotonic() - begun < LONG
    grown = (int(Path("/proc/self/statm").read_text().split()[1]) - int(before)) * os.sysconf("SC_PAGE_SIZE")
    assert grown < 50e6


def test_one_that_closes_its_output_is_waited_for() -> None:
    ended = run_and_end(sh("exec >&- 2>&-; sleep 0.3; exit 7"), timeout=10)
    assert ended.status == 7


def test_what_it_prints_last_is_kept() -> None:
    ended = run_and_end(sh("head -c 1000000 /dev/zero | tr '\\0' x; echo; echo the end"), timeout=30)
    assert ended.status == 0
    assert ended.last_words.endswith(b"\nthe end\n")
    assert len(ended.last_words) == 4096


@pytest.mark.parametrize("text", ["printf '\\033]0;x\\007evil'; exit 1", "printf '\\377\\376'; exit 1"])
def test_bytes_that_are_no_text(text: str) -> None:
    assert run_hook(sh(text), {}, 10).startswith("status 1: ")
