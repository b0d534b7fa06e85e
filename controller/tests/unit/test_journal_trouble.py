"""A journal that is damaged, held, of a newer version: one line, with the way out of just that."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from pathlib import Path

import pytest
from journal_cases import finish
from warm_program import vcrecovery

from vcrecovery.core.episode import Request
from vcrecovery.errors import ExitCode, ExternalError
from vcrecovery.store.journal import Journal

VERBS = [["status"], ["status", "--json"], ["history"], ["explain"], ["metrics"]]


def error_of(plan: Path, *words: str) -> str:
    done = vcrecovery(*words, "--plan", plan)
    assert (done.returncode, done.stdout) == (ExitCode.EXTERNAL, ""), done.stderr
    (line,) = done.stderr.splitlines()
    return line


@pytest.fixture
def journal(plan_file: Path) -> Path:
    """With one failover of web in it."""
    path = plan_file.parent / "state/journal.db"
    journal = Journal(path)
    finish(journal, journal.open("web", "libvirt: crashed", Request(automatic=True), 1.0), 1.0)
    return path


def test_one_that_is_damaged(plan_file: Path) -> None:
    path = plan_file.parent / "state/journal.db"
    path.parent.mkdir()
    path.write_bytes(b"no database" * 1000)
    said = error_of(plan_file, "history")
    assert f"the journal {path} cannot be used: file is not a database; " in said
    assert said.endswith(
        "restore a copy, or move it away; without it, check yourself who serves: it knows of no failover"
    )


def test_one_that_is_held(journal: Path) -> None:
    opened = Journal(journal)
    opened.rows("PRAGMA busy_timeout=1")
    with contextlib.closing(sqlite3.connect(journal, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(ExternalError, match=re.escape(f"is locked; `fuser -v {journal}` shows by whom")):
            opened.suspend("web", None)


def test_one_whose_file_system_is_read_only(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the kernel makes it after an error of the disk. Nobody's rights, and no space, are in the way."""
    opened, real = Journal(journal), os.statvfs(journal)
    opened.rows("PRAGMA query_only=ON")
    with pytest.raises(ExternalError, match="readonly database; call as the user to whom it belongs"):
        opened.suspend("web", None)
    read_only = os.statvfs_result([*real[:8], real.f_flag | os.ST_RDONLY, real.f_namemax])
    monkeypatch.setattr(os, "statvfs", lambda _path: read_only)
    hint = f"its file system is read-only: `dmesg` says why; `findmnt -T {journal.parent}` shows which one it is"
    with pytest.raises(ExternalError, match=re.escape(f"readonly database; {hint}")):
        opened.suspend("web", None)


def test_one_that_is_being_written_is_read_all_the_same(plan_file: Path, journal: Path) -> None:
    """A failover writes each of its steps; who looks how it goes waits for none of them, and holds up none."""
    with contextlib.closing(sqlite3.connect(journal, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        writer.execute("UPDATE episode SET reason = 'half written'")
        done = vcrecovery("history", "--plan", plan_file)
    assert (done.returncode, done.stderr) == (ExitCode.DONE, "")
    assert "libvirt: crashed" in done.stdout
    assert "half written" not in done.stdout


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE episode SET outcome = 'returned'",
        'UPDATE episode SET request = \'{"automatic": true, "since": 3}\'',
        "UPDATE episode SET request = 'none'",
        "UPDATE step SET step = 'announce'",
        "UPDATE service SET side = 'both'",
    ],
)
def test_one_of_a_newer_version(plan_file: Path, journal: Path, change: str) -> None:
    with contextlib.closing(sqlite3.connect(journal, isolation_level=None)) as database:
        database.execute(change)
    for words in VERBS if "episode" in change or "step" in change else [["status"], ["metrics"]]:
        said = error_of(plan_file, *words)
        assert f"the journal {journal} holds what this version does not know: " in said
        assert said.endswith("; use the vcrecovery that wrote it")
