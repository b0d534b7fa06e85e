"""The network of a drill: a bridge in a network namespace that has no way out, for as long as the drill lives.

The namespace has no name and no file: one thread of this program is in it, and when the program ends, however it ends,
the kernel removes it with the bridge and all cables. So nothing of it can be left, and nothing on this machine's
own interfaces ever carries a packet of a clone. What that thread starts, threads and programs, is in there too.
"""

from __future__ import annotations

import ctypes
import os
import queue
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from ipaddress import IPv4Interface, IPv6Interface
from typing import Any, TypeVar

from vcrecovery.drivers.process import run
from vcrecovery.errors import ExternalError

_CLONE_NEWNET = 0x40000000
_BRIDGE = "drill"
#: How the ends of cables are called on this machine while no clone has them: the process, and a number.
CABLE = "vcrd"
COMMAND_TIMEOUT = 10.0
#: Seconds for the kernel to take the namespace apart.
_GONE_WITHIN = 10.0
T = TypeVar("T")


class DrillNetwork:
    """As a context manager it is there from the beginning to the end of the block. Its methods raise ExternalError.

    `addresses` are the gateways' own, as the secondaries' bridges have them.
    """

    def __init__(self, addresses: Iterable[IPv4Interface | IPv6Interface]) -> None:
        self._addresses = list(dict.fromkeys(addresses))
        self._work: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._cables: list[str] = []
        #: Set when it is about to go: what waits in there should end.
        self.closing = threading.Event()

    def __enter__(self) -> DrillNetwork:
        self._thread = threading.Thread(target=self._inside, name="drill-network", daemon=True)
        self._thread.start()
        try:
            self.within(self._lay_out)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def within(self, call: Callable[[], T]) -> T:
        """What `call` returns, or raises, when it is called in the network."""
        answer: Future[T] = Future()
        self._work.put((call, answer))
        return answer.result()

    def plug(self) -> str:
        """A new cable into the bridge; the name of its other end, which is on this machine until a clone takes it."""
        name = f"{CABLE}{os.getpid()}-{len(self._cables)}"
        self._cables.append(name)
        port = f"port{len(self._cables)}"

        def lay() -> None:
            _ip("link", "add", port, "type", "veth", "peer", "name", name, "netns", str(os.getpid()))
            _ip("link", "set", port, "master", _BRIDGE, "up")

        self.within(lay)
        return name

    def close(self) -> None:
        """Returns once the cables are gone."""
        if self._thread is None:
            return
        self.closing.set()
        self._work.put(None)
        self._thread.join(_GONE_WITHIN)
        self._thread = None

    # -- in the thread -----------------------------------------------------------------------------------------

    def _inside(self) -> None:
        failed: BaseException | None = None
        try:
            _leave_the_network()
        except BaseException as error:  # noqa: BLE001  raised where the network is asked for something
            failed = error
        while (order := self._work.get()) is not None:
            call, answer = order
            try:
                if failed is not None:
                    raise failed
                answer.set_result(call())
            except BaseException as error:  # noqa: BLE001  raised in the thread that waits for it
                answer.set_exception(error)
        if failed is None:
            # Not left to the kernel, which would do it a moment after this thread's end.
            for number in range(len(self._cables)):
                _quietly("link", "del", f"port{number + 1}")

    def _lay_out(self) -> None:
        _ip("link", "set", "lo", "up")
        _ip("link", "add", _BRIDGE, "type", "bridge")
        # No address of IPv6 but the plan's own.
        _ip("link", "set", _BRIDGE, "addrgenmode", "none")
        for address in self._addresses:
            words = ["nodad"] if address.version == 6 else []
            _ip("address", "add", str(address), "dev", _BRIDGE, *words)
        _ip("link", "set", _BRIDGE, "up")


def _leave_the_network() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
        raise ExternalError(
            f"no network for the drill can be made: {os.strerror(ctypes.get_errno()).lower()}",
            "call it as root with CAP_SYS_ADMIN and CAP_NET_ADMIN",
        )


def _ip(*words: str) -> bytes:
    return run(["ip", *words], timeout=COMMAND_TIMEOUT)


def _quietly(*words: str) -> None:
    try:
        _ip(*words)
    except ExternalError:
        return  # a clone's end took it along, or the kernel will
