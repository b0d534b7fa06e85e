"""Runs a command and reads what it cost."""

from __future__ import annotations

import contextlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from vcrecovery.errors import ExternalError


@dataclass(frozen=True)
class Usage:
    """Seconds. CPU time is that of the process and of its children that it waited for."""

    wall: float
    cpu: float
    output: bytes


@dataclass(frozen=True)
class Spread:
    """A median with the smallest and the largest value."""

    median: float
    low: float
    high: float
    runs: int


def spread(values: Sequence[float]) -> Spread:
    """The spread of at least one value."""
    return Spread(statistics.median(values), min(values), max(values), len(values))


def measured(argv: Sequence[str], *, timeout: float) -> Usage:
    """Runs `argv` to its end; `timeout` in seconds.

    vcrecovery.drivers.process cannot be used: only wait4 tells one child's CPU time. ExternalError when it fails or
    takes too long; nothing that it started is left behind, not even after Ctrl-C.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        try:
            process = subprocess.Popen(
                list(argv), stdin=subprocess.DEVNULL, stdout=output, stderr=errors, start_new_session=True
            )
        except FileNotFoundError as error:
            raise ExternalError(f"{argv[0]} is not installed") from error
        # Blocks in wait4 instead of polling, which would blur short runs.
        killer = threading.Timer(timeout, kill_group, [process.pid])
        killer.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
            wall = time.perf_counter() - started
            process.returncode = os.waitstatus_to_exitcode(status)
        finally:
            killer.cancel()
            if process.returncode is None:
                kill_group(process.pid)
                process.wait()
        output.seek(0)
        errors.seek(0)
        if process.returncode == -signal.SIGKILL and wall >= timeout:
            raise ExternalError(f"{argv[0]} did not finish within {timeout:.0f} s")
        if process.returncode:
            lines = errors.read().decode(errors="replace").strip().splitlines() or ["it printed nothing"]
            raise ExternalError(f"{argv[0]} failed with status {process.returncode}: {lines[-1]}")
        return Usage(wall, usage.ru_utime + usage.ru_stime, output.read())


def peak_memory(argv: Sequence[str], *, timeout: float) -> int:
    """The most resident memory that `argv` has, in bytes; `timeout` in seconds.

    Linux counts for a process what its parent had when it was forked. So its parent is a small process, not this
    one, which knows every path of a large tree.
    """
    usage = measured([sys.executable, "-S", "-c", _SMALL_PARENT, *argv], timeout=timeout)
    return int(usage.output) * 1024


_SMALL_PARENT = """\
import os, sys
quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=quiet)
_, status, usage = os.wait4(child, 0)
print(usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def kill_group(leader: int) -> None:
    """Ends a process that leads a group, and its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
