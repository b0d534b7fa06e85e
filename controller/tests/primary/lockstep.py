"""A writer that appends to one file, makes sure that it is on the disk, and then to another one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.waiting import wait_for

_PROGRAM = """
import os, sys
logs = [os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT) for path in sys.argv[1:]]
number = 0
while True:
    for log in logs:
        os.write(log, b"%09d\\n" % number)
        os.fsync(log)
    number += 1
"""
_FIRST, _SECOND = "a.log", "z.log"


@contextmanager
def lockstep(folder: Path, between: int = 20_000_000) -> Iterator[None]:
    """Between the two files lies a large one, which a copy that goes by name has to read."""
    (folder / "filler").write_bytes(bytes(between))
    writer = subprocess.Popen([sys.executable, "-c", _PROGRAM, str(folder / _FIRST), str(folder / _SECOND)])
    try:
        wait_for((folder / _SECOND).exists, "the first line")
        yield
    finally:
        writer.kill()
        writer.wait()


def ahead(folder: Path) -> int:
    """By how many lines the second file is before the first, which never happened."""
    return max(0, (folder / _SECOND).stat().st_size // 10 - (folder / _FIRST).stat().st_size // 10)
