"""States of one host's VMs, and what ends, pauses and resumes them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import libvirt

from vcrecovery.core.domain import Destroyed, DomainReading, DomainUsage
from vcrecovery.core.power import Power
from vcrecovery.drivers.libvirt.addresses import Addresses
from vcrecovery.drivers.libvirt.connection import Call, T
from vcrecovery.drivers.libvirt.readings import POWER, Guest, reason_of
from vcrecovery.errors import ExternalError


class LibvirtHost(Addresses):
    """One hypervisor. Nothing is connected to before it is used."""

    def __init__(
        self,
        name: str,
        uri: str,
        timeout: float = 10.0,
        *,
        read_only: bool = False,
        keeps_off: Callable[[str], None] = lambda _uuid: None,
    ) -> None:
        """`keeps_off` is called before a VM that was set to start with its host is so no more."""
        super().__init__(name, uri, timeout, read_only=read_only)
        self._keeps_off = keeps_off

    def read(self, uuid: str) -> DomainReading:
        """The VM's state. `ABSENT` when this host does not know it.

        Raises ExternalError when the host does not answer.
        """

        def reading(call: Call[DomainReading]) -> DomainReading:
            domain = call.domain(uuid)
            if domain is None:
                return DomainReading(Power.ABSENT, detail=f"hypervisor {self.name} does not know VM {uuid}")
            state, reason = domain.state()
            said, power = reason_of(state, reason), POWER.get(state, Power.RUNNING)
            return DomainReading(power, said, "", _starts_by_itself(domain, power, said))

        try:
            return self._call(reading)
        except libvirt.libvirtError as error:
            raise self._unreachable(error) from error

    def guests(self) -> list[Guest]:
        """Every VM of this host, also those that are off.

        Not by libvirt's bulk statistics: since libvirt 8.9 those ask QEMU itself, and one QEMU that has stopped would
        hold up the answer for all, NOWAIT or not. What is asked here libvirt knows without QEMU.
        Raises ExternalError when the host does not answer.
        """

        def listing(call: Call[list[Guest]]) -> list[Guest]:
            found = (_guest(domain) for domain in call.connection.listAllDomains())
            return [guest for guest in found if guest is not None]

        try:
            return self._call(listing)
        except libvirt.libvirtError as error:
            raise self._unreachable(error) from error

    def usage(self, uuids: Sequence[str]) -> dict[str, DomainUsage]:
        """State and CPU time of those of these VMs that the host knows.

        Raises ExternalError when the host does not answer.
        """
        known = {guest.uuid: guest for guest in self.guests()}
        return {
            uuid: DomainUsage(guest.reading, guest.cpu_time, guest.vcpus)
            for uuid in uuids
            if (guest := known.get(uuid)) is not None
        }

    def destroy(self, uuid: str, timeout: float | None = None) -> Destroyed:
        """Ends the VM at once, and keeps it from coming back with its host.

        Nothing happens to one that is off.

        A QEMU that has stopped takes libvirt 10 to 15 seconds: it does not hear the first signal.
        Raises ExternalError when the host does not answer or will not.
        """

        def end(call: Call[Destroyed]) -> Destroyed:
            domain, ended = call.domain(uuid), False
            if domain is None:
                return Destroyed()
            starts_with_host = bool(domain.autostart() and domain.isPersistent())
            if starts_with_host:
                self._keep_off(call, domain, uuid)
            try:
                if domain.isActive():
                    call.check()
                    domain.destroy()
                    ended = True
            except libvirt.libvirtError as error:
                if error.get_error_code() not in (libvirt.VIR_ERR_OPERATION_INVALID, libvirt.VIR_ERR_NO_DOMAIN):
                    if starts_with_host:
                        # It goes on as it was: its failover may be withdrawn.
                        with contextlib.suppress(libvirt.libvirtError):
                            domain.setAutostart(1)
                    raise
            return Destroyed(ended, starts_with_host)

        try:
            return self._call(end, timeout, slow=True)
        except libvirt.libvirtError as error:
            raise ExternalError(
                f"hypervisor {self.name} did not destroy VM {uuid}: {str(error).splitlines()[0]}",
                "destroy the VM by hand, then run it again",
            ) from error

    def shut_down(self, uuid: str, timeout: float | None = None) -> bool:
        """Asks the VM to shut down by itself, as its power button does; whether it was set to start with its host.

        Nothing happens to one that is off. Raises ExternalError when the host does not answer or will not, and for a VM
        that nobody could start again.
        """

        def ask(call: Call[bool], domain: Any) -> bool:
            if not domain.isPersistent():
                raise ExternalError(
                    f"VM {uuid} is transient: hypervisor {self.name} would forget it", "`virsh define` it first"
                )
            if domain.isActive():
                call.check()
                domain.shutdown()
            return bool(domain.autostart())

        return self._do(uuid, ask, "shut down", timeout)

    def start(self, uuid: str, *, with_host: bool, timeout: float | None = None, anew: bool = False) -> bool:
        """Starts a VM that is off; whether it was. `with_host`: it is to start with its host from now on.

        `anew`: it boots, also where its memory was saved, and would go on as it was then. Raises ExternalError when the
        host does not answer or will not.
        """

        def begin(call: Call[bool], domain: Any) -> bool:
            if with_host and not domain.autostart():
                call.check()
                domain.setAutostart(1)
            if domain.isActive():
                return False
            saved = anew and domain.hasManagedSaveImage()
            call.check()
            if saved:
                domain.createWithFlags(libvirt.VIR_DOMAIN_START_FORCE_BOOT)
            else:
                domain.create()
            return True

        return self._do(uuid, begin, "start", timeout)

    def keep_off(self, uuid: str, timeout: float | None = None) -> bool:
        """Keeps a VM that is off from starting with its host. False when it runs: nothing is changed then.

        Raises ExternalError when the host does not answer or will not.
        """

        def keep(call: Call[bool], domain: Any) -> bool:
            if domain.isActive():
                return False
            if domain.autostart():
                self._keep_off(call, domain, uuid)
            return not domain.isActive()

        return self._do(uuid, keep, "keep off", timeout)

    def _keep_off(self, call: Call[T], domain: Any, uuid: str) -> None:
        self._keeps_off(uuid)
        call.check()
        domain.setAutostart(0)

    def _do(self, uuid: str, act: Callable[[Call[bool], Any], bool], word: str, timeout: float | None) -> bool:
        """What `act` returns. Raises ExternalError, also when there is no such VM."""

        def done(call: Call[bool]) -> bool:
            domain = call.domain(uuid)
            if domain is None:
                raise ExternalError(f"hypervisor {self.name} does not know VM {uuid}", "correct the plan")
            return act(call, domain)

        try:
            return self._call(done, timeout, slow=True)
        except libvirt.libvirtError as error:
            raise ExternalError(
                f"hypervisor {self.name} did not {word} VM {uuid}: {str(error).splitlines()[0]}",
                "see its log, then run it again",
            ) from error

    def suspend(self, uuid: str, timeout: float | None = None) -> bool:
        """Pauses the VM, and keeps it from starting with its host; whether it ran.

        Nothing happens to one that is off, and one that is paused stays so. Raises ExternalError when the host does not
        answer or will not.
        """

        def pause(call: Call[bool], domain: Any) -> bool:
            power = POWER.get(domain.state()[0], Power.RUNNING)
            if power not in (Power.RUNNING, Power.PAUSED):
                return False
            if power is Power.RUNNING:
                call.check()
                domain.suspend()
            # Also of one whose pauser was killed in between.
            if domain.autostart() and domain.isPersistent():
                self._keep_off(call, domain, uuid)
            return power is Power.RUNNING

        return self._change(uuid, pause, "pause", timeout)

    def resume(self, uuid: str, timeout: float | None = None) -> bool:
        """Lets a paused VM go on; whether it was paused.

        Raises ExternalError when the host does not answer or will not.
        """

        def go_on(call: Call[bool], domain: Any) -> bool:
            if domain.state()[0] != libvirt.VIR_DOMAIN_PAUSED:
                return False
            call.check()
            domain.resume()
            return True

        return self._change(uuid, go_on, "resume", timeout)

    def _change(self, uuid: str, change: Callable[[Call[bool], Any], bool], word: str, timeout: float | None) -> bool:
        """False when there is no such VM, or it has ended meanwhile."""

        def changed(call: Call[bool]) -> bool:
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
            raise ExternalError(
                f"hypervisor {self.name} did not {word} VM {uuid}: {str(error).splitlines()[0]}",
                f"{word} the VM by hand, then run it again",
            ) from error


def _guest(domain: Any) -> Guest | None:
    """None for one that has gone meanwhile."""
    try:
        state, reason = domain.state()
        _, memory_limit, memory, vcpus, cpu_time = domain.info()
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        raise
    word = reason_of(state, reason)
    itself = _starts_by_itself(domain, POWER.get(state, Power.RUNNING), word)
    return Guest(domain.UUIDString(), domain.name(), state, vcpus, memory, memory_limit, cpu_time, word, itself)


def _starts_by_itself(domain: Any, power: Power, reason: str) -> str:
    """Asked only where it counts: of a VM that is off, and libvirt does not know why."""
    if power is not Power.SHUTOFF or reason:
        return ""
    with contextlib.suppress(libvirt.libvirtError):  # it has gone meanwhile
        if domain.hasManagedSaveImage():
            return "managed save image"
        if domain.isPersistent() and domain.autostart():
            return "autostart"
    return ""
