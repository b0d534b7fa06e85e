"""A client of each service, which asks again as soon as it was answered, wherever the service is."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException

#: Seconds for a connection to be made, and for an answer.
_CONNECTED_WITHIN, _ANSWERED_WITHIN = 0.25, 20.0
_PAUSE = 0.02


def answered(address: str, port: int) -> bool:
    with (
        closing(HTTPConnection(address, port, timeout=_CONNECTED_WITHIN)) as connection,
        suppress(OSError, HTTPException),
    ):
        connection.connect()
        connection.sock.settimeout(_ANSWERED_WITHIN)
        connection.request("GET", "/cgi-bin/work")
        return connection.getresponse().read() == b"done\n"
    return False


@contextmanager
def clients(places: Mapping[str, Sequence[str]], port: int) -> Iterator[Mapping[str, list[float]]]:
    """When each service has answered, by the steady clock; to the end of the block."""
    found: dict[str, list[float]] = {name: [] for name in places}
    stop = threading.Event()

    def ask(name: str) -> None:
        addresses = list(places[name])
        while not stop.is_set():
            if answered(addresses[0], port):
                found[name].append(time.monotonic())
            else:
                addresses.append(addresses.pop(0))
                stop.wait(_PAUSE)

    threads = [threading.Thread(target=ask, args=(name,)) for name in places]
    for thread in threads:
        thread.start()
    try:
        yield found
    finally:
        stop.set()
        for thread in threads:
            thread.join()
