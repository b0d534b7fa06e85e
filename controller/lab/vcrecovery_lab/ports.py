"""Ports for servers on loopback, chosen in one place."""

from __future__ import annotations

import random
import socket
from pathlib import Path

from .run import LabError

_CLIENTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
#: Zabbix takes no port above 32767.
_LOWEST, _HIGHEST = 20000, 32768


def free_port(address: str = "127.0.0.1") -> int:
    """One that neither TCP nor UDP uses at `address`, and that nobody else gets here while this process lives.

    It is none of those that the kernel gives to clients: such a one may be taken before its server is there, and
    whoever connects to one that nobody listens on may be connected with himself.
    """
    low, high = map(int, _CLIENTS.read_text().split())
    # A machine may give clients all of them: then there is no better one.
    servers = [port for port in range(_LOWEST, _HIGHEST) if not low <= port <= high] or range(_LOWEST, _HIGHEST)
    for port in random.sample(servers, min(len(servers), 500)):
        # A name that only one process can hold: the port stays ours before and between its uses.
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with claim, socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
            # As servers do, which need not wait for the last connections of those before them.
            tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                claim.bind(f"\0vcrecovery-lab-port-{port}")
                tcp.bind((address, port))
                udp.bind((address, port))
            except OSError:
                continue
            claim.detach()  # it is held until the process ends
            return port
    raise LabError(
        f"no free port at {address} from {_LOWEST} to {_HIGHEST}, but for {low} to {high}, which clients get"
    )
