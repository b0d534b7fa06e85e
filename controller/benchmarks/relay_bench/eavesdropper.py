"""Stands between a hypervisor and the relay: keeps what passes, to be replayed, and loses answers on their way."""

from __future__ import annotations

import select
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from .agents import client_environment

_HERE = "127.0.1.11"
#: A Report, which is no answer to an inform, is shorter.
_SHORTEST_ANSWER = 130


@dataclass
class Eavesdropper:
    """`loses`: so many of the first answers do not arrive."""

    loses: int
    port: int = 0
    informs: list[bytes] = field(default_factory=list)
    lost: int = 0

    def inform(self, folder: Path, what: Sequence[str]) -> None:
        """net-snmp sends an inform through here, again each second until it is confirmed."""
        words = ["snmpinform", "-m", "", "-v3", "-r", "10", "-t", "1", f"{_HERE}:{self.port}", *what]
        env = client_environment(folder / "client")
        subprocess.run(words, env=env, timeout=60, check=True, stderr=subprocess.DEVNULL)

    def relay(self, inner: socket.socket, outer: socket.socket, target: tuple[str, int], over: threading.Event) -> None:
        client: tuple[str, int] = ("", 0)
        while not over.is_set():
            for sock in select.select([inner, outer], [], [], 0.1)[0]:
                data, sender = sock.recvfrom(65535)
                if sock is inner:
                    client = sender
                    self.informs.append(data)
                    outer.sendto(data, target)
                elif self.lost < self.loses and len(data) > _SHORTEST_ANSWER:
                    self.lost += 1
                else:
                    inner.sendto(data, client)


@contextmanager
def eavesdropping(source: str, target: tuple[str, int], loses: int = 0) -> Iterator[Eavesdropper]:
    """What it is sent goes on to `target`, from the address `source`."""
    over = threading.Event()
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as inner,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outer,
    ):
        inner.bind((_HERE, 0))
        outer.bind((source, 0))
        made = Eavesdropper(loses, inner.getsockname()[1])
        thread = threading.Thread(target=made.relay, args=(inner, outer, target, over))
        thread.start()
        try:
            yield made
        finally:
            over.set()
            thread.join()
