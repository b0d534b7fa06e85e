"""One libvirt host: states, lifecycle events, destroy, suspend, resume.

libvirt-python has no timeouts. A keep-alive on the connection ends calls into a daemon that hangs, and since even
opening a connection can hang, every call runs in a thread that is given up after its time.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import libvirt

from vcrecovery.errors import OutsideError
from vcrecovery.recover.states import OFF, Power

KEEPALIVE_SECONDS = 5
KEEPALIVE_COUNT = 3
#: Seconds for the end of a subscription.
END_WITHIN = 2.0
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


class LibvirtHost:
    """A connection to one hypervisor, opened when it is first needed."""

    def __init__(self, name: str, uri: str, timeout: float = 10.0, *, read_only: bool = False) -> None:
        self.name = name
        self._uri = uri
        self._timeout = timeout
        self._open = libvirt.openReadOnly if read_only else libvirt.open
        self._connection: Any = None

    def _unreachable(self, error: Exception | str) -> OutsideError:
        reason = str(error).splitlines()[0]
        return OutsideError(
            f"hypervisor {self.name} ({self._uri}) does not answer: {reason}",
            f"start libvirtd there, and try `virsh -c {self._uri} list`",
        )

    def _call(self, function: Callable[[], T], timeout: float | None = None) -> T:
        """Runs `function` in a thread of its own, since nothing else ends a call into a daemon that hangs.

        The thread is a daemon: a program that has given a call up must not wait for it when it ends.
        """
        results: list[T] = []
        errors: list[BaseException] = []
        ended = threading.Event()

        def work() -> None:
            try:
                results.append(function())
            except BaseException as error:  # noqa: BLE001  it is raised again in the caller's thread
                errors.append(error)
            ended.set()

        threading.Thread(target=work, name=f"libvirt-{self.name}", daemon=True).start()
        if not ended.wait(timeout or self._timeout):
            self._connection = None
            raise self._unreachable(f"no answer within {timeout or self._timeout:.0f} s")
        if errors:
            raise errors[0]
        return results[0]

    def _connected(self) -> Any:
        connection = self._connection
        if connection is not None and connection.isAlive():
            return connection
        start_event_loop()
        connection = self._open(self._uri)
        with contextlib.suppress(libvirt.libvirtError):  # a driver without keep-alive
            connection.setKeepAlive(KEEPALIVE_SECONDS, KEEPALIVE_COUNT)
        self._connection = connection
        return connection

    def _domain(self, uuid: str) -> Any | None:
        try:
            return self._connected().lookupByUUIDString(uuid)
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                return None
            raise

    def read(self, uuid: str) -> DomainReading:
        """The VM's state. `ABSENT` when this host does not know it.

        Raises OutsideError when the host does not answer.
        """

        def reading() -> DomainReading:
            domain = self._domain(uuid)
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

        def listing() -> list[Guest]:
            found = (_guest(domain) for domain in self._connected().listAllDomains())
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

        def end() -> None:
            domain = self._domain(uuid)
            if domain is None:
                return
            if domain.isPersistent() and domain.autostart():
                domain.setAutostart(0)
            try:
                if domain.isActive():
                    domain.destroy()
            except libvirt.libvirtError as error:
                if error.get_error_code() not in (libvirt.VIR_ERR_OPERATION_INVALID, libvirt.VIR_ERR_NO_DOMAIN):
                    raise

        try:
            self._call(end, timeout)
        except libvirt.libvirtError as error:
            raise OutsideError(
                f"hypervisor {self.name} did not destroy VM {uuid}: {str(error).splitlines()[0]}",
                "end the VM by hand, then call again",
            ) from error

    def suspend(self, uuid: str, timeout: float | None = None) -> bool:
        """Pauses the VM, and keeps it from starting with its host; whether it ran.

        Nothing happens to one that is paused or off. Raises OutsideError when the host does not answer or will not.
        """

        def pause(domain: Any) -> bool:
            if _POWER.get(domain.state()[0], Power.RUNNING) is not Power.RUNNING:
                return False
            domain.suspend()
            if domain.isPersistent() and domain.autostart():
                domain.setAutostart(0)
            return True

        return self._change(uuid, pause, "pause", timeout)

    def resume(self, uuid: str, timeout: float | None = None) -> bool:
        """Lets a paused VM go on; whether it was paused.

        Raises OutsideError when the host does not answer or will not.
        """

        def go_on(domain: Any) -> bool:
            if domain.state()[0] != libvirt.VIR_DOMAIN_PAUSED:
                return False
            domain.resume()
            return True

        return self._change(uuid, go_on, "resume", timeout)

    def _change(self, uuid: str, change: Callable[[Any], bool], word: str, timeout: float | None) -> bool:
        """False when there is no such VM, or it has ended meanwhile."""

        def changed() -> bool:
            domain = self._domain(uuid)
            try:
                return domain is not None and change(domain)
            except libvirt.libvirtError as error:
                gone = error.get_error_code() in (libvirt.VIR_ERR_OPERATION_INVALID, libvirt.VIR_ERR_NO_DOMAIN)
                if gone and domain is not None and not domain.isActive():
                    return False
                raise

        try:
            return self._call(changed, timeout)
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

        def lifecycle(_connection: Any, domain: Any, event: int, detail: int, _opaque: object) -> None:
            stopped = event in (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_CRASHED)
            reason = _STOPPED.get(detail, "") if event == libvirt.VIR_DOMAIN_EVENT_STOPPED else "crashed"
            if event == libvirt.VIR_DOMAIN_EVENT_STARTED:
                on_begin(domain.UUIDString())
            words = words_of(event, detail)
            on_event(DomainEvent(domain.UUIDString(), stopped, reason if stopped else "", domain.name(), *words))

        def rebooted(_connection: Any, domain: Any, _opaque: object) -> None:
            on_begin(domain.UUIDString())

        def closed(_connection: Any, _reason: int, _opaque: object) -> None:
            self._connection = None
            on_close()

        def register() -> tuple[Any, list[int]]:
            connection = self._connected()
            connection.registerCloseCallback(closed, None)
            wanted = (
                (libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, lifecycle),
                (libvirt.VIR_DOMAIN_EVENT_ID_REBOOT, rebooted),
            )
            return connection, [connection.domainEventRegisterAny(None, kind, call, None) for kind, call in wanted]

        try:
            connection, numbers = self._call(register)
        except libvirt.libvirtError as error:
            raise self._unreachable(error) from error

        def deregister() -> None:
            with contextlib.suppress(libvirt.libvirtError):
                for number in numbers:
                    connection.domainEventDeregisterAny(number)
                connection.unregisterCloseCallback()

        def end() -> None:
            # This is a call into the daemon, too: one that hangs must not keep its caller from the next connection.
            thread = threading.Thread(target=deregister, name=f"libvirt-end-{self.name}", daemon=True)
            thread.start()
            thread.join(END_WITHIN)

        return end

    def alive(self) -> bool:
        """Whether the connection in use still answers its keep-alives."""
        connection = self._connection
        return connection is not None and bool(connection.isAlive())
