"""The connections to one libvirt host, and calls that end in time.

libvirt-python has no timeouts. A keep-alive on the connection ends calls into a daemon that hangs, and since even
opening a connection can hang, every call runs in a thread that is given up after its time.

A connection is used by one call at a time, and by none after one that was given up: with two calls under way libvirt
before 10.4 (CVE-2024-4418) may use a stack that is gone when the keep-alive closes the connection: the program crashes.
Nor may Python close one when it happens to be collected, since that is a call into the daemon, too.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import libvirt

from vcrecovery.drivers.process import run
from vcrecovery.errors import ExternalError

KEEPALIVE_SECONDS = 5
KEEPALIVE_COUNT = 3
#: Calls at once to one host: sshd takes no more than ten that are logging in.
MOST_AT_ONCE = 8
#: Of these, calls that may take QEMU's time: what only asks must not wait behind them, and seem to get no answer.
MOST_SLOW = MOST_AT_ONCE - 3
#: Opens a connection in a program of its own, which, unlike a thread, can be ended. An error is an answer, too.
_OPENS = """
import contextlib, sys
with contextlib.suppress(Exception):
    import libvirt
    libvirt.openReadOnly(sys.argv[1])
"""
T = TypeVar("T")


def _quiet(_context: object, _error: object) -> None:
    """libvirt prints errors to stderr unless a handler is set."""


_started = threading.Event()
_starting = threading.Lock()


def _run_events() -> None:
    while True:
        with contextlib.suppress(libvirt.libvirtError):
            libvirt.virEventRunDefaultImpl()


def start_event_loop() -> None:
    """libvirt's event loop in a thread of its own, once per process. Keep-alives need it."""
    with _starting:
        if not _started.is_set():
            libvirt.registerErrorHandler(_quiet, None)
            libvirt.virEventRegisterDefaultImpl()
            threading.Thread(target=_run_events, name="libvirt-events", daemon=True).start()
            _started.set()


class GivenUpError(Exception):
    """Nobody waits for this call any more: what it was to change it must leave alone."""


@dataclass
class Call(Generic[T]):
    """One call, as its own thread and the one that waits for it see it."""

    connection: Any = None
    opening: bool = False
    given_up: bool = False
    ended: threading.Event = field(default_factory=threading.Event)
    results: list[T] = field(default_factory=list)
    error: BaseException | None = None

    def domain(self, uuid: str) -> Any | None:
        try:
            found = self.connection.lookupByUUIDString(uuid)
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                return None
            raise
        self.check()
        return found

    def check(self) -> None:
        """Right before something is changed: raises GivenUpError when nobody waits for it any more."""
        if self.given_up:
            raise GivenUpError


def close(connections: list[Any]) -> None:
    """May hang."""
    while connections:
        with contextlib.suppress(libvirt.libvirtError):
            connections.pop().close()


def _close_aside(connections: list[Any]) -> None:
    if not connections:
        return
    with contextlib.suppress(RuntimeError):  # the program ends, and so do they
        threading.Thread(target=close, args=(connections,), name="libvirt-close", daemon=True).start()


class Connection:
    """The connections to one hypervisor, opened when they are first needed."""

    def __init__(self, name: str, uri: str, timeout: float = 10.0, *, read_only: bool = False) -> None:
        self.name = name
        self._uri = uri
        self._timeout = timeout
        self._open = libvirt.openReadOnly if read_only else libvirt.open
        self._lock = threading.Lock()
        self._free = threading.BoundedSemaphore(MOST_AT_ONCE)
        self._slow = threading.BoundedSemaphore(MOST_SLOW)
        self._idle: list[Any] = []
        #: How many attempts to open a connection were given up and have not come back since.
        self._hanging = 0
        self._asking = threading.Lock()
        weakref.finalize(self, _close_aside, self._idle)

    def _unreachable(self, error: Exception | str) -> ExternalError:
        reason = str(error).splitlines()[0]
        # What comes of ssh, which ends before anybody has asked libvirtd.
        by_ssh = "Cannot recv data" in reason and "+ssh" in self._uri
        first = (
            "see that it is up, that hypervisor_fencing_keys of its role has root's SSH key, and root its host key"
            if by_ssh
            else "start libvirtd there"
        )
        return ExternalError(
            f"hypervisor {self.name} ({self._uri}) does not answer: {reason}",
            f"{first}, and try `virsh -c {self._uri} list`",
        )

    def _call(
        self,
        function: Callable[[Call[T]], T],
        timeout: float | None = None,
        *,
        keep: bool = False,
        slow: bool = False,
        undo: Callable[[T], None] = lambda _: None,
    ) -> T:
        """Runs `function` in a thread of its own, since nothing else ends a call into a daemon that hangs.

        The thread is a daemon: a program that has given a call up must not wait for it when it ends. `keep`: the
        connection stays with the caller. `slow`: it may wait for a QEMU. `undo` gets what a call that was given up has
        come to all the same.
        """
        limit = timeout or self._timeout
        places = (self._slow, self._free) if slow else (self._free,)
        with contextlib.ExitStack() as held:
            for place in places:
                if not place.acquire(timeout=limit):
                    raise self._unreachable(f"no answer within {limit:.0f} s")
                held.callback(place.release)
            call: Call[T] = Call()
            words = (call, function, keep, undo)
            threading.Thread(target=self._work, args=words, name=f"libvirt-{self.name}", daemon=True).start()
            if not call.ended.wait(limit) and self._give_up(call):
                raise self._unreachable(f"no answer within {limit:.0f} s")
        if call.error is not None:
            raise call.error
        return call.results[0]

    def _give_up(self, call: Call[T]) -> bool:
        """False when it has just ended."""
        with self._lock:
            if call.ended.is_set():
                return False
            call.given_up = True
            self._hanging += call.opening
            return True

    def _work(self, call: Call[T], function: Callable[[Call[T]], T], keep: bool, undo: Callable[[T], None]) -> None:
        error: BaseException | None = None
        try:
            call.connection = self._take(call)
            if not call.given_up:
                call.results.append(function(call))
        except libvirt.libvirtError as failed:
            # Its frames would keep VMs, and through them the connection.
            error = failed.with_traceback(None)
        except BaseException as failed:  # noqa: BLE001  it is raised again in the caller's thread
            error = failed
        connection, call.connection = call.connection, None
        with self._lock:
            if not call.given_up:
                if connection is not None and not keep:
                    self._idle.append(connection)
                    connection = None
                call.error = error
                call.ended.set()
        if call.given_up:
            for result in call.results:
                undo(result)
        if connection is not None and not (keep and call.results):
            close([connection])

    def _take(self, call: Call[T]) -> Any:
        """A connection that nobody else uses."""
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                break
            if connection.isAlive():
                return connection
            close([connection])
        self._ask_first()
        start_event_loop()
        with self._lock:
            if call.given_up:
                raise GivenUpError
            call.opening = True
        try:
            connection = self._open(self._uri)
        finally:
            with self._lock:
                call.opening = False
                self._hanging -= call.given_up
        with contextlib.suppress(libvirt.libvirtError):  # a driver without keep-alive
            connection.setKeepAlive(KEEPALIVE_SECONDS, KEEPALIVE_COUNT)
        return connection

    def _ask_first(self) -> None:
        """While an attempt to open a connection hangs, another would too, and so would all that follow, for good."""
        silent = self._unreachable(f"no answer within {self._timeout:.0f} s")
        if self._hanging == 0:
            return
        if not self._asking.acquire(timeout=self._timeout):
            raise silent
        try:
            if self._hanging:
                run([sys.executable, "-I", "-c", _OPENS, self._uri], timeout=self._timeout)
        except ExternalError as error:
            raise silent from error
        finally:
            self._asking.release()
