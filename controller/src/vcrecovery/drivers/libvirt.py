"""One libvirt host: states, lifecycle events, destroy, suspend, resume.

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import libvirt

from vcrecovery.drivers.process import run
from vcrecovery.errors import OutsideError
from vcrecovery.recover.states import OFF, Power

KEEPALIVE_SECONDS = 5
KEEPALIVE_COUNT = 3
#: Seconds for the end of a subscription.
END_WITHIN = 2.0
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

_POWER = {
    libvirt.VIR_DOMAIN_RUNNING: Power.RUNNING,
    libvirt.VIR_DOMAIN_BLOCKED: Power.RUNNING,
    libvirt.VIR_DOMAIN_SHUTDOWN: Power.RUNNING,
    libvirt.VIR_DOMAIN_PAUSED: Power.PAUSED,
    libvirt.VIR_DOMAIN_PMSUSPENDED: Power.PAUSED,
    libvirt.VIR_DOMAIN_SHUTOFF: Power.SHUTOFF,
    libvirt.VIR_DOMAIN_CRASHED: Power.CRASHED,
}
_REASON = {
    libvirt.VIR_DOMAIN_SHUTOFF_SHUTDOWN: "shutdown",
    libvirt.VIR_DOMAIN_SHUTOFF_DESTROYED: "destroyed",
    libvirt.VIR_DOMAIN_SHUTOFF_CRASHED: "crashed",
    libvirt.VIR_DOMAIN_SHUTOFF_MIGRATED: "migrated",
    libvirt.VIR_DOMAIN_SHUTOFF_SAVED: "saved",
    libvirt.VIR_DOMAIN_SHUTOFF_FAILED: "failed",
    libvirt.VIR_DOMAIN_SHUTOFF_FROM_SNAPSHOT: "from snapshot",
    libvirt.VIR_DOMAIN_SHUTOFF_DAEMON: "daemon",
}
_STOPPED = {
    libvirt.VIR_DOMAIN_EVENT_STOPPED_SHUTDOWN: "shutdown",
    libvirt.VIR_DOMAIN_EVENT_STOPPED_DESTROYED: "destroyed",
    libvirt.VIR_DOMAIN_EVENT_STOPPED_CRASHED: "crashed",
    libvirt.VIR_DOMAIN_EVENT_STOPPED_MIGRATED: "migrated",
    libvirt.VIR_DOMAIN_EVENT_STOPPED_SAVED: "saved",
    libvirt.VIR_DOMAIN_EVENT_STOPPED_FAILED: "failed",
    libvirt.VIR_DOMAIN_EVENT_STOPPED_FROM_SNAPSHOT: "from snapshot",
}
#: libvirt's words for lifecycle events, and for their causes (`virsh event` prints the same).
_EVENT = {
    libvirt.VIR_DOMAIN_EVENT_DEFINED: ("defined", ("added", "updated", "renamed", "from snapshot")),
    libvirt.VIR_DOMAIN_EVENT_UNDEFINED: ("undefined", ("removed", "renamed")),
    libvirt.VIR_DOMAIN_EVENT_STARTED: ("started", ("booted", "migrated", "restored", "from snapshot", "wakeup")),
    libvirt.VIR_DOMAIN_EVENT_SUSPENDED: (
        "suspended",
        (
            "paused",
            "migrated",
            "I/O error",
            "watchdog",
            "restored",
            "from snapshot",
            "API error",
            "post-copy",
            "post-copy error",
        ),
    ),
    libvirt.VIR_DOMAIN_EVENT_RESUMED: ("resumed", ("unpaused", "migrated", "from snapshot", "post-copy")),
    libvirt.VIR_DOMAIN_EVENT_STOPPED: ("stopped", tuple(_STOPPED.values())),
    libvirt.VIR_DOMAIN_EVENT_SHUTDOWN: ("shutdown", ("finished", "guest", "host")),
    libvirt.VIR_DOMAIN_EVENT_PMSUSPENDED: ("pmsuspended", ("memory", "disk")),
    libvirt.VIR_DOMAIN_EVENT_CRASHED: ("crashed", ("panicked", "crashloaded")),
}


@dataclass(frozen=True)
class DomainReading:
    """What a hypervisor says of one VM. `reason` is libvirt's own word for why a VM is off."""

    power: Power
    reason: str = ""
    autostart: bool = False
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.power} ({self.reason})" if self.reason else str(self.power)


@dataclass(frozen=True)
class DomainUsage:
    """The same, with the CPU time that the VM has used so far, in nanoseconds over all its vCPUs."""

    reading: DomainReading
    cpu_time: int = 0
    vcpus: int = 0


@dataclass(frozen=True)
class DomainEvent:
    """A lifecycle event of a VM. A hint: what counts is the state that is read after it."""

    uuid: str
    stopped: bool
    reason: str
    name: str = ""
    #: libvirt's own words for what happened, and why: stopped, crashed.
    event: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Guest:
    """A VM as a hypervisor lists it. `state` is libvirt's number, memory is in KiB, CPU time in ns."""

    uuid: str
    name: str
    state: int
    vcpus: int = 0
    memory: int = 0
    memory_limit: int = 0
    cpu_time: int = 0
    reason: str = ""

    @property
    def reading(self) -> DomainReading:
        return DomainReading(_POWER.get(self.state, Power.RUNNING), self.reason)


def words_of(event: int, detail: int) -> tuple[str, str]:
    """libvirt's words for a lifecycle event. Numbers of newer libvirts, which have none here, stay numbers."""
    word, details = _EVENT.get(event, (str(event), ()))
    return word, details[detail] if 0 <= detail < len(details) else str(detail)


def _guest(domain: Any) -> Guest | None:
    """None for one that has gone meanwhile."""
    try:
        state, reason = domain.state()
        _, memory_limit, memory, vcpus, cpu_time = domain.info()
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        raise
    word = _REASON.get(reason, "") if _POWER.get(state, Power.RUNNING) in OFF else ""
    return Guest(domain.UUIDString(), domain.name(), state, vcpus, memory, memory_limit, cpu_time, word)


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


class _GivenUpError(Exception):
    """Nobody waits for this call any more: what it was to change it must leave alone."""


@dataclass
class _Call(Generic[T]):
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
        """Right before something is changed: raises _GivenUpError when nobody waits for it any more."""
        if self.given_up:
            raise _GivenUpError


def _deregister(connection: Any) -> None:
    """Ends all that it reports, also when it is closed. May hang."""
    for number in list(getattr(connection, "domainEventCallbackID", ())):
        with contextlib.suppress(libvirt.libvirtError):
            connection.domainEventDeregisterAny(number)
    with contextlib.suppress(libvirt.libvirtError):
        connection.unregisterCloseCallback()


def _close(connections: list[Any]) -> None:
    """May hang."""
    while connections:
        with contextlib.suppress(libvirt.libvirtError):
            connections.pop().close()


def _close_aside(connections: list[Any]) -> None:
    if not connections:
        return
    with contextlib.suppress(RuntimeError):  # the program ends, and so do they
        threading.Thread(target=_close, args=(connections,), name="libvirt-close", daemon=True).start()


class LibvirtHost:
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
        self._subscribed: Any = None
        weakref.finalize(self, _close_aside, self._idle)

    def _unreachable(self, error: Exception | str) -> OutsideError:
        reason = str(error).splitlines()[0]
        return OutsideError(
            f"hypervisor {self.name} ({self._uri}) does not answer: {reason}",
            f"start libvirtd there, and try `virsh -c {self._uri} list`",
        )

    def _call(
        self,
        function: Callable[[_Call[T]], T],
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
            call: _Call[T] = _Call()
            words = (call, function, keep, undo)
            threading.Thread(target=self._work, args=words, name=f"libvirt-{self.name}", daemon=True).start()
            if not call.ended.wait(limit) and self._give_up(call):
                raise self._unreachable(f"no answer within {limit:.0f} s")
        if call.error is not None:
            raise call.error
        return call.results[0]

    def _give_up(self, call: _Call[T]) -> bool:
        """False when it has just ended."""
        with self._lock:
            if call.ended.is_set():
                return False
            call.given_up = True
            self._hanging += call.opening
            return True

    def _work(self, call: _Call[T], function: Callable[[_Call[T]], T], keep: bool, undo: Callable[[T], None]) -> None:
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
            _close([connection])

    def _take(self, call: _Call[T]) -> Any:
        """A connection that nobody else uses."""
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                break
            if connection.isAlive():
                return connection
            _close([connection])
        self._ask_first()
        start_event_loop()
        with self._lock:
            if call.given_up:
                raise _GivenUpError
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
        except OutsideError as error:
            raise silent from error
        finally:
            self._asking.release()

    def read(self, uuid: str) -> DomainReading:
        """The VM's state. `ABSENT` when this host does not know it.

        Raises OutsideError when the host does not answer.
        """

        def reading(call: _Call[DomainReading]) -> DomainReading:
            domain = call.domain(uuid)
            if domain is None:
                return DomainReading(Power.ABSENT, detail=f"hypervisor {self.name} knows no VM {uuid}")
            state, reason = domain.state()
            power = _POWER.get(state, Power.RUNNING)
            word = _REASON.get(reason, "") if power in OFF else ""
            autostart = bool(domain.autostart()) if domain.isPersistent() else False
            return DomainReading(power, word, autostart)

        try:
            return self._call(reading)
        except libvirt.libvirtError as error:
            raise self._unreachable(error) from error

    def guests(self) -> list[Guest]:
        """Every VM of this host, also those that are off.

        Not by libvirt's bulk statistics: since libvirt 8.9 those ask QEMU itself, and one QEMU that has stopped would
        hold up the answer for all, NOWAIT or not. What is asked here libvirt knows without QEMU.
        Raises OutsideError when the host does not answer.
        """

        def listing(call: _Call[list[Guest]]) -> list[Guest]:
            found = (_guest(domain) for domain in call.connection.listAllDomains())
            return [guest for guest in found if guest is not None]

        try:
            return self._call(listing)
        except libvirt.libvirtError as error:
            raise self._unreachable(error) from error

    def usage(self, uuids: Sequence[str]) -> dict[str, DomainUsage]:
        """State and CPU time of these VMs.

        Raises OutsideError when the host does not answer.
        """
        known = {guest.uuid: guest for guest in self.guests()}
        return {
            uuid: DomainUsage(guest.reading, guest.cpu_time, guest.vcpus)
            if (guest := known.get(uuid))
            else DomainUsage(DomainReading(Power.ABSENT, detail=f"hypervisor {self.name} knows no VM {uuid}"))
            for uuid in uuids
        }

    def destroy(self, uuid: str, timeout: float | None = None) -> None:
        """Ends the VM at once, and keeps it from coming back with its host. Nothing happens to one that is off.

        A QEMU that has stopped takes libvirt 10 to 15 seconds: it does not hear the first signal.
        Raises OutsideError when the host does not answer or will not.
        """

        def end(call: _Call[None]) -> None:
            domain = call.domain(uuid)
            if domain is None:
                return
            if domain.isPersistent() and domain.autostart():
                call.check()
                domain.setAutostart(0)
            try:
                if domain.isActive():
                    call.check()
                    domain.destroy()
            except libvirt.libvirtError as error:
                if error.get_error_code() not in (libvirt.VIR_ERR_OPERATION_INVALID, libvirt.VIR_ERR_NO_DOMAIN):
                    raise

        try:
            self._call(end, timeout, slow=True)
        except libvirt.libvirtError as error:
            raise OutsideError(
                f"hypervisor {self.name} did not destroy VM {uuid}: {str(error).splitlines()[0]}",
                "end the VM by hand, then call again",
            ) from error

    def suspend(self, uuid: str, timeout: float | None = None) -> bool:
        """Pauses the VM, and keeps it from starting with its host; whether it ran.

        Nothing happens to one that is off, and one that is paused stays so. Raises OutsideError when the host does not
        answer or will not.
        """

        def pause(call: _Call[bool], domain: Any) -> bool:
            power = _POWER.get(domain.state()[0], Power.RUNNING)
            if power not in (Power.RUNNING, Power.PAUSED):
                return False
            if power is Power.RUNNING:
                call.check()
                domain.suspend()
            # Also of one whose pauser was killed in between.
            if domain.isPersistent() and domain.autostart():
                call.check()
                domain.setAutostart(0)
            return power is Power.RUNNING

        return self._change(uuid, pause, "pause", timeout)

    def resume(self, uuid: str, timeout: float | None = None) -> bool:
        """Lets a paused VM go on; whether it was paused.

        Raises OutsideError when the host does not answer or will not.
        """

        def go_on(call: _Call[bool], domain: Any) -> bool:
            if domain.state()[0] != libvirt.VIR_DOMAIN_PAUSED:
                return False
            call.check()
            domain.resume()
            return True

        return self._change(uuid, go_on, "resume", timeout)

    def _change(self, uuid: str, change: Callable[[_Call[bool], Any], bool], word: str, timeout: float | None) -> bool:
        """False when there is no such VM, or it has ended meanwhile."""

        def changed(call: _Call[bool]) -> bool:
            domain = call.domain(uuid)
            try:
                return domain is not None and change(call, domain)
            except libvirt.libvirtError as error:
                gone = error.get_error_code() in (libvirt.VIR_ERR_OPERATION_INVALID, libvirt.VIR_ERR_NO_DOMAIN)
                if gone and domain is not None and not domain.isActive():
                    return False
                raise

        try:
            return self._call(changed, timeout, slow=True)
        except libvirt.libvirtError as error:
            raise OutsideError(
                f"hypervisor {self.name} did not {word} VM {uuid}: {str(error).splitlines()[0]}",
                f"{word} the VM by hand, then call again",
            ) from error

    def subscribe(
        self,
        on_event: Callable[[DomainEvent], None],
        on_close: Callable[[], None],
        on_begin: Callable[[str], None] = lambda _uuid: None,
    ) -> Callable[[], None]:
        """Reports lifecycle events from libvirt's thread, and the loss of the connection. Returns the way to end it.

        `on_begin` gets the UUID of a VM that is started, or whose guest reboots.

        Raises OutsideError when the host does not answer.
        """

        over = threading.Event()

        def lifecycle(_connection: Any, domain: Any, event: int, detail: int, _opaque: object) -> None:
            stopped = event in (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_CRASHED)
            reason = _STOPPED.get(detail, "") if event == libvirt.VIR_DOMAIN_EVENT_STOPPED else "crashed"
            if over.is_set():
                return
            if event == libvirt.VIR_DOMAIN_EVENT_STARTED:
                on_begin(domain.UUIDString())
            words = words_of(event, detail)
            on_event(DomainEvent(domain.UUIDString(), stopped, reason if stopped else "", domain.name(), *words))

        def rebooted(_connection: Any, domain: Any, _opaque: object) -> None:
            if not over.is_set():
                on_begin(domain.UUIDString())

        def closed(_connection: Any, _reason: int, _opaque: object) -> None:
            if not over.is_set():
                on_close()

        def register(call: _Call[list[Any]]) -> list[Any]:
            call.connection.registerCloseCallback(closed, None)
            wanted = (
                (libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, lifecycle),
                (libvirt.VIR_DOMAIN_EVENT_ID_REBOOT, rebooted),
            )
            try:
                for kind, report in wanted:
                    call.connection.domainEventRegisterAny(None, kind, report, None)
            except libvirt.libvirtError:
                _deregister(call.connection)
                raise
            return [call.connection]

        def deregister(subscribed: list[Any]) -> None:
            over.set()
            _deregister(subscribed[0])
            _close(subscribed)

        try:
            subscribed = self._call(register, keep=True, undo=deregister)
        except libvirt.libvirtError as error:
            raise self._unreachable(error) from error
        self._subscribed = subscribed[0]

        def end() -> None:
            # This is a call into the daemon, too: one that hangs must not keep its caller from the next connection.
            over.set()
            self._subscribed = None
            thread = threading.Thread(
                target=deregister, args=(subscribed,), name=f"libvirt-end-{self.name}", daemon=True
            )
            thread.start()
            thread.join(END_WITHIN)

        return end

    def alive(self) -> bool:
        """Whether the connection of the subscription still answers its keep-alives."""
        connection = self._subscribed
        return connection is not None and bool(connection.isAlive())
