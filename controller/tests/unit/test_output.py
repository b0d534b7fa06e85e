"""Output that cannot be written: a full disk, a closed descriptor, a reader that has gone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from vcrecovery.core.episode import Outcome
from vcrecovery.errors import ExitCode
from vcrecovery.store.journal import Journal


def run(plan: Path, redirected: str, *words: str) -> subprocess.CompletedProcess[str]:
    """In a shell, which can close what a program inherits."""
    program = [sys.executable, "-m", "vcrecovery", *words, "--plan", str(plan)]
    return subprocess.run(
        ["bash", "-c", f'set -o pipefail; "$@" {redirected}', "bash", *program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("redirected", ["> /dev/full", ">&-", "<&- >&-", "| true"])
@pytest.mark.parametrize("words", [["web"], ["--host", "hv1"], ["web", "--json"]])
def test_a_failover_goes_on_and_its_status_tells_how_it_went(
    plan_file: Path, tmp_path: Path, redirected: str, words: list[str]
) -> None:
    done = run(plan_file, redirected, "failover", *words)
    assert done.returncode == ExitCode.REFUSED, done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    (episode,) = Journal(tmp_path / "state/journal.db").history("web")
    assert episode.outcome is Outcome.REFUSED


@pytest.mark.parametrize("words", [["history"], ["status"], ["metrics"], ["plan", "check"]])
def test_what_could_not_be_written_is_said(plan_file: Path, words: list[str]) -> None:
    done = run(plan_file, "> /dev/full", *words)
    assert done.returncode == ExitCode.EXTERNAL
    assert done.stderr == (
        "vcrecovery: error: the output cannot be written: No space left on device; write it elsewhere\n"
    )


@pytest.mark.parametrize("words", [["history"], ["status"], ["suspend", "web"], ["plan", "check"]])
def test_a_closed_output_is_nobodys_loss(plan_file: Path, words: list[str]) -> None:
    done = run(plan_file, "<&- >&-", *words)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("redirected", ["2> /dev/full", "2>&-"])
@pytest.mark.parametrize("words", [["history", "wbe"], ["history", "--nonsense"], ["hsitory"]])
def test_an_error_that_nobody_can_read_has_its_status(plan_file: Path, redirected: str, words: list[str]) -> None:
    done = run(plan_file, redirected, *words)
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
