"""Clients that never stop asking: one at the old place, one at the new one."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from itertools import pairwise


@dataclass(frozen=True)
class Pace:
    """Seconds between two questions, and for one: nobody answers for an address that is gone."""

    every: float
    within: float


@dataclass
class Asked:
    """When each place answered, and when one did not, by the steady clock."""

    answered: dict[str, list[float]] = field(default_factory=dict)
    lost: dict[str, list[float]] = field(default_factory=dict)

    def interruption(self, old: str, new: str) -> float | None:
        """Seconds from the last answer of the one to the first of the other; None without either."""
        before, after = self.answered[old], self.answered[new]
        return after[0] - before[-1] if before and after else None

    def lost_meanwhile(self, old: str, new: str) -> int:
        """How many questions to the old place had no answer before the new one gave its first."""
        until = self.answered[new][0] if self.answered[new] else float("inf")
        return sum(at < until for at in self.lost[old])

    def longest_gap(self, address: str) -> float | None:
        """Seconds between two answers of a place that stays; None with fewer."""
        found = self.answered[address]
        return max((after - before for before, after in pairwise(found)), default=None)


@dataclass
class Connection:
    """One that stays open, on which the service counts lines. `broken`: why it does not any more."""

    count: int = 0
    broken: str = ""


@contextmanager
def counting(address: str, port: int, pace: Pace) -> Iterator[Connection]:
    """A line again and again, until the end of the block."""
    found, stop = Connection(), threading.Event()

    def count() -> None:
        try:
            with socket.create_connection((address, port), timeout=120) as line, line.makefile("rw") as file:
                while not stop.wait(pace.every):
                    file.write("x\n")
                    file.flush()
                    said = file.readline().strip()
                    found.count += 1
                    if said != str(found.count):
                        found.broken = f"{said or 'closed'} instead of {found.count}"
                        return
        except OSError as error:
            found.broken = str(error)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        yield found
    finally:
        stop.set()
        thread.join()


def answers(address: str, port: int, within: float) -> bool:
    with closing(HTTPConnection(address, port, timeout=within)) as connection, suppress(OSError, HTTPException):
        connection.request("GET", "/")
        return connection.getresponse().status == 200
    return False


@contextmanager
def asking(addresses: Sequence[str], port: int, pace: Pace) -> Iterator[Asked]:
    """It goes on until the end of the block."""
    asked = Asked({address: [] for address in addresses}, {address: [] for address in addresses})
    stop = threading.Event()

    def ask(address: str) -> None:
        while not stop.wait(pace.every):
            found = asked.answered if answers(address, port, pace.within) else asked.lost
            found[address].append(time.monotonic())

    threads = [threading.Thread(target=ask, args=(address,)) for address in addresses]
    for thread in threads:
        thread.start()
    try:
        yield asked
    finally:
        stop.set()
        for thread in threads:
            thread.join()
