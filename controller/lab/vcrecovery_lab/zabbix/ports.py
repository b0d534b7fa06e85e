"""Free TCP ports on loopback, each for one stack at a time."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

from vcrecovery_lab.run import LabError

#: Outside the range from which the kernel takes ports of outgoing connections.
_RANGE = range(20000, 30000)


class Ports:
    """Ports that no other process takes by this class until `close`; the kernel forgets them with the process."""

    def __init__(self) -> None:
        self._held = ExitStack()

    def take(self) -> int:
        for port in random.sample(_RANGE, 200):
            # A name that only one process can hold: it is still ours before and between the uses of the port.
            claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                claim.bind(f"\0vcrecovery-lab-port-{port}")
                with socket.socket() as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(("127.0.0.1", port))
            except OSError:
                claim.close()
            else:
                self._held.enter_context(claim)
                return port
        raise LabError("no free TCP port between 20000 and 30000 on 127.0.0.1")

    def close(self) -> None:
        self._held.close()
