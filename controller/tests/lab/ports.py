"""Ports for servers of a test."""

from __future__ import annotations

import random
import socket


def free_port() -> int:
    """A loopback port that neither TCP nor UDP uses, below those that the kernel gives to clients."""
    while True:
        port = random.randrange(20000, 32000)  # noqa: S311  no secret
        with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
            try:
                tcp.bind(("127.0.0.1", port))
                udp.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
