"""What a drill costs the sync: from a row on the VM's disk to the same in the standby, with drills and without."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from statistics import median

from vcrecovery_lab import rows
from vcrecovery_lab.demo import controller
from vcrecovery_lab.layout import SERVICE
from vcrecovery_lab.progress import stderr_progress
from vcrecovery_lab.run import LabError

from .stage_rounds import Bench, is_protected, wait_for

#: Rows a second, and seconds for the last of them to arrive.
_RATE, _PATIENCE = 1.0, 120.0
_POLL = 0.02
#: Names that no round of before has used.
_FIRST = 10_000_000


@dataclass(frozen=True)
class Visible:
    """Seconds from the acknowledged row to its being there in the standby. `drills`: how many went on meanwhile."""

    what: str
    rows: int
    median: float
    p99: float
    high: float
    drills: int = 0
    drill: float = 0.0
    """Seconds of one, the median."""


def drill_costs(bench: Bench, count: int) -> list[Visible]:
    """`count` rows without a drill, and as many while one follows the other."""
    bench.inside_vm(rows.INSTALL)
    try:
        wait_for(lambda: is_protected(bench), "a protected service")
        wait_for(lambda: _takes_rows(bench), "the program that takes rows")
        with stderr_progress(f"{count} rows without a drill"):
            calm = _rows(bench, "without a drill", count, _FIRST)
        with stderr_progress(f"{count} rows, one drill after the other"), _drills(bench) as taken:
            found = _rows(bench, "one drill after the other", count, _FIRST + count)
        if not taken:
            raise LabError("no drill has come to its end")
        busy = Visible(found.what, found.rows, found.median, found.p99, found.high, len(taken), median(taken))
        return [calm, busy]
    finally:
        bench.inside_vm(rows.REMOVE)


def _takes_rows(bench: Bench) -> bool:
    try:
        socket.create_connection((bench.layout.primary().ip, rows.PORT), timeout=5).close()
    except OSError:
        return False
    return True


@contextmanager
def _drills(bench: Bench) -> Iterator[list[float]]:
    """One after the other until the end; how many seconds each took."""
    taken: list[float] = []
    trouble: list[BaseException] = []
    stop = threading.Event()

    def rehearse() -> None:
        try:
            while not stop.is_set():
                begun = time.monotonic()
                controller(bench.layout, "drill", SERVICE, timeout=300)
                taken.append(time.monotonic() - begun)
        except LabError as error:
            trouble.append(error)

    thread = threading.Thread(target=rehearse)
    thread.start()
    try:
        yield taken
    finally:
        stop.set()
        thread.join()
    if trouble:
        raise trouble[0]


def _rows(bench: Bench, what: str, count: int, first: int) -> Visible:
    written: dict[int, float] = {}
    arrived: dict[int, float] = {}
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(_POLL):
            there = bench.rows_of_the_standby
            now = time.monotonic()
            for row in there & written.keys() - arrived.keys():
                arrived[row] = now

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        begun = time.monotonic()
        for number in range(count):
            time.sleep(max(0.0, begun + number / _RATE - time.monotonic()))
            _write(bench, first + number)
            written[first + number] = time.monotonic()
        deadline = time.monotonic() + _PATIENCE
        while len(arrived) < count:
            if time.monotonic() > deadline:
                raise LabError(f"{what}: {count - len(arrived)} rows have not arrived")
            time.sleep(_POLL)
    finally:
        ended.set()
        watcher.join()
    # One may be there before its acknowledgement is.
    took = sorted(max(0.0, arrived[row] - at) for row, at in written.items())
    return Visible(what, count, median(took), took[min(count - 1, int(count * 0.99))], took[-1])


def _write(bench: Bench, row: int) -> None:
    connection = HTTPConnection(bench.layout.primary().ip, rows.PORT, timeout=30)
    try:
        connection.request("POST", f"/{row}")
        if connection.getresponse().read() == b"":
            raise LabError(f"row {row} was not acknowledged")
    finally:
        connection.close()
