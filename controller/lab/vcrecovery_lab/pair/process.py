"""Processes of the pair: started in groups of their own, found again, ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def start(argv: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Runs a program whose output is added to `log`."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [str(word) for word in argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, "LC_ALL": "C", **(env or {})},
            start_new_session=True,
        )


def having(path: Path) -> list[int]:
    """The processes that name a path below `path` in their command line, but for this one."""
    wanted = os.fsencode(path) + b"/"
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (process / "cmdline").read_bytes() and int(process.name) != os.getpid():
                found.append(int(process.name))
    return found


def below(pid: int) -> list[int]:
    """The descendants of a process."""
    parents: dict[int, list[int]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            parent = int((process / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(int(process.name))
    found = [pid]
    for one in found:
        found += parents.get(one, [])
    return found[1:]


def name(pid: int) -> str:
    """Its program's, empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def kill(pids: Sequence[int]) -> int:
    """SIGKILL, as a crash does it; how many there were."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(pids)
