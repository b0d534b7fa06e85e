"""Do ports answer?"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from vcrecovery.drivers.clock import Clock


def answers(address: str, port: int, timeout: float) -> bool:
    """Whether a TCP connection to the port is accepted within `timeout` seconds."""
    try:
        with socket.create_connection((address, port), timeout=timeout):
            return True
    except OSError:
        return False


def open_ports(address: str, ports: Sequence[int], timeout: float) -> list[int]:
    """Those of `ports` that answer, asked all at once."""
    with ThreadPoolExecutor(max_workers=max(1, len(ports))) as pool:
        found = pool.map(lambda port: answers(address, port, timeout), ports)
        return [port for port, answered in zip(ports, found, strict=True) if answered]


def wait_for_ports(address: str, ports: Sequence[int], clock: Clock, timeout: float) -> list[int]:
    """Asks until every port answers or `timeout` seconds are over; the ports that still do not answer."""
    deadline = clock.now() + timeout
    waiting = list(ports)
    while True:
        answered = open_ports(address, waiting, timeout=1.0)
        waiting = [port for port in waiting if port not in answered]
        if not waiting or clock.now() >= deadline:
            return waiting
        clock.sleep(0.05)
