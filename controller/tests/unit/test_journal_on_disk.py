"""The journal when the power fails at the worst moment: what a verb has begun is on the disk before it acts.

The program runs under strace, and what it has written and not yet synced at that moment is lost.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sqlite3
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from view_program import PATIENCE, command, env

from evidence_cases import proof
from vcrecovery.core.episode import Request, Step
from vcrecovery.store.journal import Journal

#: Their calls as strace writes them: all that changes a file that SQLite writes, and what begins a program.
_TRACED = "pwrite64,write,ftruncate,fsync,fdatasync,execve"
_WRITES = re.compile(r'^\d+ +pwrite64\(\d+<(.*?)>, "(.*?)", \d+, (\d+)')
_SYNCS = re.compile(r"^(\d+) +f(?:data)?sync\(\d+<(.*?)>(.*)")
_SYNCED = re.compile(r"^(\d+) +<\.\.\. f(?:data)?sync resumed>.*= 0$")

needs_strace = pytest.mark.skipif(
    shutil.which("strace") is None and "VCRECOVERY_SKIP_NOTHING" not in os.environ,
    reason="needs strace; `make setup` installs it",
)


class Disk:
    """What is on it of some files, if the power fails now. Each `line` of strace's output is what happens next."""

    def __init__(self, *files: Path) -> None:
        self._kept = {str(file): bytearray(file.read_bytes() if file.exists() else b"") for file in files}
        self._written: defaultdict[str, list[tuple[int, bytes]]] = defaultdict(list)
        self._syncing: dict[str, tuple[str, list[tuple[int, bytes]]]] = {}

    def happens(self, line: str) -> None:
        if found := _WRITES.match(line):
            file, content, offset = found.groups()
            self._written[os.fsdecode(unquoted(file))].append((int(offset), unquoted(content)))
        elif found := _SYNCS.match(line):
            thread, file, rest = found.groups()
            # What is written from here on may come too late for it.
            name = os.fsdecode(unquoted(file))
            self._syncing[thread] = name, self._written.pop(name, [])
            if rest.endswith("= 0"):
                self._synced(thread)
        elif found := _SYNCED.match(line):
            self._synced(found.group(1))

    def _synced(self, thread: str) -> None:
        file, written = self._syncing.pop(thread)
        for offset, content in written if file in self._kept else []:
            kept = self._kept[file]
            kept.extend(bytes(max(0, offset + len(content) - len(kept))))
            kept[offset : offset + len(content)] = content

    def write_to(self, folder: Path) -> None:
        folder.mkdir()
        for file, content in self._kept.items():
            (folder / Path(file).name).write_bytes(content)


@pytest.fixture
def fenced_next(plan_file: Path) -> Iterator[Path]:
    """The failover of web has come to its fence: by a command, since its hypervisor is silent."""
    fence = plan_file.parent / "fenced"
    text = plan_file.read_text().replace("hv1: {", f"hv1: {{fence: {{command: [touch, {fence}]}}, ")
    plan_file.write_text(text)
    journal, now = Journal(plan_file.parent / "state/journal.db"), time.time()
    episode = journal.open("web", "a test", Request(force=True), now)
    looked = proof(Step.CONFIRM, power="unreachable", fence_command=True, freshness=1.0)
    journal.end(journal.begin(episode, Step.CONFIRM, now), now, ok=True, evidence=looked)
    # It stays open: the end of the last connection would write what is in the WAL where strace does not look.
    yield plan_file
    del journal


@needs_strace
def test_a_fence_is_in_the_journal_on_the_disk_before_it_acts(fenced_next: Path, tmp_path: Path) -> None:
    journal = tmp_path / "state/journal.db"
    disk = Disk(journal, journal.with_name("journal.db-wal"))
    disk.write_to(before := tmp_path / "before")
    assert in_the_journal(before) == (0, ["confirm"])
    for line in traced(tmp_path, "failover", "web", "--force", "--plan", fenced_next):
        if "execve(" in line and quoted(str(tmp_path / "fenced")) in line:
            break
        disk.happens(line)
    else:
        pytest.fail("it was not fenced")
    disk.write_to(after := tmp_path / "after the power failed")
    # Its epoch is spent with it: nobody takes the same one for another failover.
    assert in_the_journal(after) == (1, ["confirm", "fence"])


def traced(folder: Path, *words: str | Path) -> list[str]:
    """What the program does when it is called so."""
    log = folder / "strace"
    strace = ["strace", "-f", "-y", "-xx", "-s", "100000", "-e", f"trace={_TRACED}", "-o", str(log)]
    subprocess.run([*strace, *command(*words)], env=env(), capture_output=True, timeout=2 * PATIENCE, check=False)
    return log.read_text().splitlines()


def quoted(text: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in text.encode())


def unquoted(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def in_the_journal(folder: Path) -> tuple[int, list[str]]:
    """The epoch of web, and the steps of its failover that have begun, as who opens it next finds them."""
    with contextlib.closing(sqlite3.connect(folder / "journal.db")) as db:
        (epoch,) = db.execute("SELECT epoch FROM service WHERE name = 'web'").fetchone()
        return epoch, [step for (step,) in db.execute("SELECT step FROM step ORDER BY id")]
