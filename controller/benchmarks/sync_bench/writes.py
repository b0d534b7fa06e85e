"""Small writes into a tree at a steady rate, and when each is visible in the standby."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from vcrecovery.errors import ExternalError

_POLL_SECONDS = 0.01
#: How long the last writes may take to arrive.
_PATIENCE_SECONDS = 120


@dataclass(frozen=True)
class Latency:
    """Seconds from the end of a write to its being visible."""

    what: str
    writes: int
    median: float
    p99: float
    high: float


@dataclass(frozen=True)
class _Written:
    path: bytes
    at: float
    time: int
    size: int


class _Writer:
    """Creates a file, overwrites one, appends to one, in turns, and never the same one twice."""

    def __init__(self, tree: Path, paths: Sequence[bytes]) -> None:
        self._top = os.fsencode(tree)
        self._paths = iter(paths)
        self._number = 0

    def write(self) -> _Written:
        self._number += 1
        path = next(self._paths)
        kind = ("create", "overwrite", "append")[self._number % 3]
        if kind == "create":
            path += b".%d" % self._number
        stamp = b"%d %.6f\n" % (self._number, time.time())
        with open(self._top + path, "ab" if kind == "append" else "wb") as file:
            file.write(stamp)
        status = os.stat(self._top + path)
        return _Written(path, time.monotonic(), status.st_mtime_ns, status.st_size)


def latency(
    what: str, tree: Path, rootfs: Path, paths: Sequence[bytes], rate: float, seconds: float,
    halfway: Callable[[], None] = lambda: None,
) -> Latency:  # fmt: skip
    """Writes for so long, and waits until all is visible; each of the paths is taken once at most."""
    waiting: dict[bytes, _Written] = {}
    lock, ended = threading.Lock(), threading.Event()
    found: list[float] = []
    thread = threading.Thread(target=_watch, args=(os.fsencode(rootfs), waiting, lock, ended, found))
    thread.start()
    try:
        writer = _Writer(tree, paths)
        began = time.monotonic()
        count = round(rate * seconds)
        for number in range(count):
            pause = began + number / rate - time.monotonic()
            if pause > 0:
                time.sleep(pause)
            written = writer.write()
            with lock:
                waiting[written.path] = written
            if number == count // 2:
                halfway()
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while len(found) < count:
            if time.monotonic() > deadline:
                raise ExternalError(f"{what}: {count - len(found)} writes have not arrived")
            time.sleep(_POLL_SECONDS)
    finally:
        ended.set()
        thread.join()
    found.sort()
    return Latency(what, count, found[count // 2], found[min(count - 1, int(count * 0.99))], found[-1])


def _watch(
    top: bytes, waiting: dict[bytes, _Written], lock: threading.Lock, ended: threading.Event, found: list[float]
) -> None:
    """rsync gives a file its time before its name, so the time says which content is there."""
    while not ended.wait(_POLL_SECONDS):
        with lock:
            open_ones = list(waiting.values())
        for written in open_ones:
            try:
                status = os.stat(top + written.path)
            except FileNotFoundError:
                continue
            if (status.st_mtime_ns, status.st_size) == (written.time, written.size):
                found.append(time.monotonic() - written.at)
                with lock:
                    del waiting[written.path]
