"""A service until users have it again: a VM, a standby that starts at once, a name in BIND, and `vcrecovery watch`.

Everything is there but the standby's own boot or thaw: its LXD is simulated, and what answers at its address runs all
the time. So it is what detection, the failover's steps, libvirt and DNS take.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from recovery_bench.names import addresses_of
from recovery_bench.overhead_site import ZONE, Site, address_of, name_of, name_server, uuid_of
from vcrecovery.plan.model import Timeouts
from vcrecovery.store.journal import Journal
from vcrecovery_lab.detection.chain import PROGRAM
from vcrecovery_lab.pair.process import start
from vcrecovery_lab.pair.waiting import wait_until
from vcrecovery_lab.private_libvirt import PrivateLibvirt
from vcrecovery_lab.run import LabError

from .site import PATIENCE, wait_for_line

SERVICE, NAME, VM = name_of(0), f"{name_of(0)}.{ZONE}", "vcrlab-served"
PRIMARY, STANDBY = address_of(21, 0), address_of(20, 0)
#: What the standby says to whoever connects, so that an answer is known to be the right one.
GREETING = b"the standby\n"
STABLE_FOR = f"{Timeouts().stable_for:g}s"
#: Seconds: for a user's question, and between two of them.
_QUESTION, _EVERY = 1.0, 0.01


@dataclass(frozen=True)
class Back:
    """Seconds from the failure: until the failover's first step, until the service answers through its name."""

    begun: float
    answered: float


def greeting_through(name: str, port: int, dns_port: int) -> bytes | None:
    """What a user gets who asks the name server, and then whom it names; None without an answer."""
    for address in addresses_of(name, dns_port):
        with (
            contextlib.suppress(OSError),
            socket.create_connection((address, port), timeout=_QUESTION) as connection,
        ):
            connection.settimeout(_QUESTION)
            return connection.recv(len(GREETING))
    return None


@contextmanager
def _standby() -> Iterator[int]:
    """Greets at its address; the port."""
    with socket.create_server((STANDBY, 0), backlog=128) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection, contextlib.suppress(OSError):
                        connection.sendall(GREETING)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE)


def fail_and_wait(
    folder: Path, libvirt: PrivateLibvirt, fail: Callable[[int], None], mend: Callable[[int], None], window: float
) -> Back:
    """One failure of a service that was well. `fail` and `mend` get QEMU's process id; `folder` is made."""
    folder.mkdir()
    with ExitStack() as ends:
        dns_port = ends.enter_context(name_server(folder, {SERVICE: PRIMARY}))
        port = ends.enter_context(_standby())
        site = Site(folder, 1, libvirt.uri, port, dns_port)
        data = site.plan("run", with_dns=True, stable_for=STABLE_FOR)
        data["detection"] = {"cpu_zero_for": f"{window:g}s"}
        plan = ends.enter_context(site.laid_out("run", data))
        ends.callback(libvirt.forget, VM)
        libvirt.make(VM, uuid_of(0))
        log = folder / "watch.log"
        watch = start([PROGRAM, "watch", "--verbose", "--plan", plan], log)
        ends.callback(watch.wait, PATIENCE)
        ends.callback(watch.terminate)
        wait_for_line(log, f"{SERVICE}: the primary is running")
        if greeting_through(NAME, port, dns_port) is not None:
            raise LabError(f"{NAME} answers before anything has failed")
        pid = libvirt.qemu(VM)
        at = time.time()
        fail(pid)
        try:
            answered = _until_answered(port, dns_port, window) - at
        finally:
            mend(pid)
        # Newest first; it has been tried again if the first failover could not be finished.
        episode = Journal(folder / "run/state/journal.db").history(SERVICE, 1000)[-1]
        return Back(episode.steps[0].begun_at - at, answered)


def _until_answered(port: int, dns_port: int, window: float) -> float:
    """When the standby greeted for the first time."""
    what = f"the right answer through {NAME}"
    wait_until(lambda: greeting_through(NAME, port, dns_port) == GREETING, what, window + PATIENCE, _EVERY)
    return time.time()
