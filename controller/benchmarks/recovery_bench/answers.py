"""When services answer, seen from outside: an open port is not enough, since that of a frozen container is open."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from .rounds import Took

WEB, DATABASE = 80, 3306
#: Seconds: for a connection, for an answer, between two tries.
_CONNECT, _ANSWER, _EVERY = 0.5, 20.0, 0.1


def answers(address: str, port: int) -> bool:
    """Whether nginx gives a page, or MariaDB its greeting."""
    try:
        with socket.create_connection((address, port), timeout=_CONNECT) as connection:
            connection.settimeout(_ANSWER)
            if port == WEB:
                connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
                return connection.recv(64).startswith(b"HTTP/1.1 200")
            return b"MariaDB" in connection.recv(128)
    except OSError:
        return False


def at(places: Mapping[str, tuple[str, int]]) -> dict[str, Callable[[], bool]]:
    """Asks each service at its address and port."""
    return {name: partial(answers, *place) for name, place in places.items()}


@dataclass
class Watch:
    """Asks all services from its making on. `seconds`: service -> when it first answered.

    `asks`: service -> whether it answers now, which takes a bounded time.
    """

    asks: Mapping[str, Callable[[], bool]]
    patience: float
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._began = time.monotonic()
        self._threads = [threading.Thread(target=self._ask, args=(name,), daemon=True) for name in self.asks]
        for thread in self._threads:
            thread.start()

    def _ask(self, name: str) -> None:
        while time.monotonic() - self._began < self.patience:
            if self.asks[name]():
                self.seconds[name] = time.monotonic() - self._began
                return
            time.sleep(_EVERY)

    def elapsed(self) -> float:
        return time.monotonic() - self._began

    def took(self) -> Took:
        """Until all answered, once each has, or its time is up."""
        for thread in self._threads:
            thread.join()
        silent = [name for name in self.asks if name not in self.seconds]
        if silent:
            return Took(None, f"{', '.join(silent)} did not answer within {self.patience:g} s")
        return Took(max(self.seconds.values()))
