"""Answers for many services on one port of 127.1.0.0/16; a program of its own, so that its CPU time is not ours.

A line `close N` on stdin has the N-th service refuse: its address alone is not listened on any more. It has a listener
of its own for that, as have the first LISTENERS of them; the others share one.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import sys

from vcrecovery_lab.ports import free_port

#: So many services can be closed.
LISTENERS = 40


def address_of(number: int) -> str:
    return f"127.1.{number // 250}.{number % 250 + 1}"


def main() -> None:
    port, selector = free_port("127.1.255.1"), selectors.DefaultSelector()
    own = {number: socket.create_server((address_of(number), port), backlog=64) for number in range(LISTENERS)}
    others = [socket.create_server((f"127.1.{third}.{n}", port), backlog=64) for third, n in _rest()]
    for listener in (*own.values(), *others):
        listener.setblocking(False)
        selector.register(listener, selectors.EVENT_READ)
    selector.register(sys.stdin, selectors.EVENT_READ)
    print(port, flush=True)  # noqa: T201  for who has started this
    while True:
        for key, _ in selector.select():
            if isinstance(key.fileobj, socket.socket):
                with contextlib.suppress(OSError):
                    key.fileobj.accept()[0].close()
                continue
            if not (line := sys.stdin.readline()):
                return
            listener = own.pop(int(line.split()[1]))
            selector.unregister(listener)
            listener.close()


def _rest() -> list[tuple[int, int]]:
    return [(number // 250, number % 250 + 1) for number in range(LISTENERS, int(sys.argv[1]))]


if __name__ == "__main__":
    main()
