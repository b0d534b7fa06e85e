"""One hypervisor: states and reasons, events, what ends, pauses and resumes a VM, and what it says when it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from contracts.cases import Cases, Waits, refusal
from vcrecovery.core.domain import Destroyed, DomainEvent, DomainReading
from vcrecovery.core.power import Power
from vcrecovery.drivers.libvirt import LibvirtHost
from vcrecovery.errors import ExternalError

#: No hypervisor knows it.
NOBODY = "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7effff"
#: Seconds, for a call that says how long it may take.
SHORT = 1.0
STARTED = [("resumed", "unpaused"), ("started", "booted")]
DESTROYED = [("shutdown", "host"), ("stopped", "destroyed")]


class Hypervisor(Waits, Protocol):
    """Hypervisor hv1 with one VM, which is off, and has never been seen otherwise.

    `host` gives up after a second, and its keep-alives do after a few.
    """

    @property
    def host(self) -> LibvirtHost: ...

    @property
    def uri(self) -> str: ...

    @property
    def uuid(self) -> str: ...

    @property
    def name(self) -> str: ...

    def start(self) -> None:
        """Somebody starts the VM."""

    def shut_down(self) -> None:
        """Somebody asks the guest to power off, and it does."""

    def crash(self) -> None:
        """Its QEMU is killed."""

    def start_with_host(self) -> None:
        """From now on the VM does."""

    def forget(self) -> None:
        """libvirt does not know any more why the VM is off, as after a boot of its host."""

    def hang(self) -> None:
        """libvirtd takes connections, and does not answer."""

    def go_on(self) -> None: ...

    def end(self) -> None:
        """libvirtd ends."""

    def begin(self) -> None: ...


case = Cases[Hypervisor]()


class Heard:
    """What a subscription has reported."""

    def __init__(self, on: Hypervisor) -> None:
        self._on = on
        self.events: list[DomainEvent] = []
        self.begun: list[str] = []
        self.lost: list[int] = []
        self.end = on.host.subscribe(self.events.append, lambda: self.lost.append(1), self.begun.append)

    @property
    def words(self) -> list[tuple[str, str]]:
        return [(event.event, event.detail) for event in self.events]

    def hears(self, *words: tuple[str, str]) -> list[DomainEvent]:
        """Waits for so many more events. Nothing else was reported before them."""
        self._on.eventually(lambda: len(self.events) >= len(words), f"{words} after {self.words}")
        found, self.events[:] = list(self.events), []
        assert [(event.event, event.detail) for event in found] == list(words)
        assert {(event.uuid, event.name) for event in found} == {(self._on.uuid, self._on.name)}
        return found


@contextmanager
def hearing(on: Hypervisor) -> Iterator[Heard]:
    heard = Heard(on)
    try:
        yield heard
    finally:
        heard.end()


def ends(events: list[DomainEvent]) -> list[str]:
    """The reasons of those by which a VM has stopped."""
    assert all(not event.reason for event in events if not event.stopped)
    return [event.reason for event in events if event.stopped]


def becomes(on: Hypervisor, power: Power, reason: str = "") -> None:
    on.eventually(lambda: on.host.read(on.uuid).power is power, power)
    reading = on.host.read(on.uuid)
    assert reading == DomainReading(power, reason)
    (guest,) = on.host.guests()
    assert (guest.uuid, guest.name, guest.vcpus, guest.reading) == (on.uuid, on.name, 1, reading)
    assert on.host.usage([on.uuid])[on.uuid].reading == reading


@case
def a_vm_that_nobody_has_started(on: Hypervisor) -> None:
    becomes(on, Power.SHUTOFF)


@case
def a_start(on: Hypervisor) -> None:
    with hearing(on) as heard:
        on.start()
        assert ends(heard.hears(*STARTED)) == []
        assert heard.begun == [on.uuid]
    becomes(on, Power.RUNNING)


@case
def how_busy_a_vm_is(on: Hypervisor) -> None:
    assert on.host.machine(on.name) is None
    assert on.host.machine("nobody") is None
    on.start()
    first = on.host.machine(on.name)
    assert first is not None
    assert first.pressure == {}
    assert first.stolen is not None
    on.eventually(lambda: (on.host.machine(on.name) or first).busy > first.busy, "cores in use")


@case
def a_shutdown_on_request(on: Hypervisor) -> None:
    on.start()
    with hearing(on) as heard:
        on.shut_down()
        assert ends(heard.hears(("shutdown", "guest"), ("stopped", "shutdown"))) == ["shutdown"]
    becomes(on, Power.SHUTOFF, "shutdown")


@case
def a_crash(on: Hypervisor) -> None:
    """The event has another word for it than the state."""
    on.start()
    with hearing(on) as heard:
        on.crash()
        assert ends(heard.hears(("stopped", "failed"))) == ["failed"]
    becomes(on, Power.SHUTOFF, "crashed")


@case
def a_crash_while_it_is_paused(on: Hypervisor) -> None:
    on.start()
    on.host.suspend(on.uuid)
    with hearing(on) as heard:
        on.crash()
        assert ends(heard.hears(("stopped", "failed"))) == ["failed"]
    becomes(on, Power.SHUTOFF, "crashed")


@case
def a_destroy(on: Hypervisor) -> None:
    on.start()
    with hearing(on) as heard:
        on.host.destroy(on.uuid)
        # It is off when the call returns.
        assert on.host.read(on.uuid) == DomainReading(Power.SHUTOFF, "destroyed")
        assert ends(heard.hears(*DESTROYED)) == ["destroyed"]
    becomes(on, Power.SHUTOFF, "destroyed")


@case
def a_destroy_of_one_that_is_paused(on: Hypervisor) -> None:
    on.start()
    on.host.suspend(on.uuid)
    with hearing(on) as heard:
        on.host.destroy(on.uuid)
        assert ends(heard.hears(*DESTROYED)) == ["destroyed"]
    becomes(on, Power.SHUTOFF, "destroyed")


@case
def a_destroy_of_one_that_is_off(on: Hypervisor) -> None:
    """It says nothing, and why the VM is off stays known."""
    on.start()
    on.crash()
    becomes(on, Power.SHUTOFF, "crashed")
    with hearing(on) as heard:
        on.host.destroy(on.uuid)
        becomes(on, Power.SHUTOFF, "crashed")
        on.start()
        heard.hears(*STARTED)


@case
def a_destroy_keeps_it_from_starting_with_its_host(on: Hypervisor) -> None:
    on.start_with_host()
    assert on.host.read(on.uuid) == DomainReading(Power.SHUTOFF, starts_by_itself="autostart")
    (guest,) = on.host.guests()
    assert guest.starts_by_itself == "autostart"
    on.host.destroy(on.uuid)
    becomes(on, Power.SHUTOFF)


@case
def a_vm_that_was_destroyed_stays_off_when_its_host_boots(on: Hypervisor) -> None:
    on.start_with_host()
    on.start()
    assert on.host.destroy(on.uuid) == Destroyed(ended=True, starts_with_host=True)
    assert on.host.destroy(on.uuid) == Destroyed()
    on.forget()
    becomes(on, Power.SHUTOFF)


@case
def a_host_forgets_why_a_vm_is_off(on: Hypervisor) -> None:
    on.start_with_host()
    on.start()
    on.crash()
    # Whether it starts by itself is asked only where the reason is unknown.
    becomes(on, Power.SHUTOFF, "crashed")
    on.forget()
    assert on.host.read(on.uuid) == DomainReading(Power.SHUTOFF, starts_by_itself="autostart")


@case
def a_pause_and_its_end(on: Hypervisor) -> None:
    on.start()
    with hearing(on) as heard:
        assert on.host.suspend(on.uuid)
        assert ends(heard.hears(("suspended", "paused"))) == []
        becomes(on, Power.PAUSED)
        assert not on.host.suspend(on.uuid)
        becomes(on, Power.PAUSED)
        assert on.host.resume(on.uuid)
        assert ends(heard.hears(("resumed", "unpaused"))) == []
        becomes(on, Power.RUNNING)
        assert not on.host.resume(on.uuid)
        becomes(on, Power.RUNNING)
        assert heard.begun == []


@case
def a_pause_of_one_that_is_off_changes_nothing(on: Hypervisor) -> None:
    on.start_with_host()
    assert not on.host.suspend(on.uuid)
    assert not on.host.resume(on.uuid)
    assert on.host.read(on.uuid) == DomainReading(Power.SHUTOFF, starts_by_itself="autostart")


@case
def a_vm_that_was_paused_does_not_start_with_its_host(on: Hypervisor) -> None:
    on.start_with_host()
    on.start()
    assert on.host.suspend(on.uuid)
    on.crash()
    on.forget()
    becomes(on, Power.SHUTOFF)


@case
def a_start_after_each_end(on: Hypervisor) -> None:
    for end in (on.crash, lambda: on.host.destroy(on.uuid), on.shut_down):
        on.start()
        becomes(on, Power.RUNNING)
        end()
        on.eventually(lambda: on.host.read(on.uuid).power is Power.SHUTOFF, "its end")


@case
def cpu_time_counts_while_it_runs(on: Hypervisor) -> None:
    def used() -> int:
        return on.host.usage([on.uuid])[on.uuid].cpu_time

    assert used() == 0
    on.start()
    on.eventually(lambda: used() > 0, "CPU time")
    before = used()
    on.eventually(lambda: used() > before, "more CPU time")
    on.host.suspend(on.uuid)
    paused = used()
    assert paused > before
    on.host.resume(on.uuid)
    on.eventually(lambda: used() > paused, "CPU time after the pause")
    on.host.destroy(on.uuid)
    # The next start counts from nothing.
    assert used() == 0


@case
def a_vm_that_it_does_not_know(on: Hypervisor) -> None:
    assert on.host.read(NOBODY) == DomainReading(Power.ABSENT, detail=f"hypervisor hv1 does not know VM {NOBODY}")
    assert set(on.host.usage([NOBODY, on.uuid])) == {on.uuid}
    assert on.host.destroy(NOBODY) == Destroyed()
    assert not on.host.suspend(NOBODY)
    assert not on.host.resume(NOBODY)


@case
def an_end_of_a_subscription(on: Hypervisor) -> None:
    first, second = Heard(on), Heard(on)
    first.end()
    on.start()
    second.hears(*STARTED)
    assert (first.events, first.begun, first.lost) == ([], [], [])
    second.end()
    assert not on.host.alive()


def unreachable(on: Hypervisor, error: ExternalError, reason: str) -> None:
    uri = on.uri
    assert error.message.startswith(f"hypervisor hv1 ({uri}) does not answer: ")
    assert reason in error.message
    assert error.hint == f"start libvirtd there, and try `virsh -c {uri} list`"


@case
def a_libvirtd_that_has_ended(on: Hypervisor) -> None:
    on.start()
    heard = Heard(on)
    assert on.host.alive()
    on.end()
    on.eventually(lambda: heard.lost, "the loss of the connection")
    on.eventually(lambda: not on.host.alive(), "the end of the connection")
    host, uuid = on.host, on.uuid
    for ask in (
        lambda: host.read(uuid),
        host.guests,
        lambda: host.usage([uuid]),
        lambda: host.subscribe(print, print),
    ):
        unreachable(on, refusal(ask), "Failed to connect socket")
    for word, change in (("destroy", host.destroy), ("pause", host.suspend), ("resume", host.resume)):
        error = refusal(lambda change=change: change(uuid))  # type: ignore[misc]
        assert error.message.startswith(f"hypervisor hv1 did not {word} VM {uuid}: Failed to connect socket")
        assert error.hint == f"{word} the VM by hand, then run it again"
    heard.end()
    on.begin()
    # The VM went on, and the same object gets answers again.
    becomes(on, Power.RUNNING)
    with hearing(on) as again:
        assert host.alive()
        host.destroy(uuid)
        again.hears(*DESTROYED)
    assert heard.events == []


@case
def a_libvirtd_that_hangs(on: Hypervisor) -> None:
    on.start()
    becomes(on, Power.RUNNING)
    on.hang()
    host, uuid = on.host, on.uuid
    for ask in (lambda: host.read(uuid), lambda: host.usage([uuid]), lambda: host.subscribe(print, print)):
        unreachable(on, refusal(ask), "no answer within 1 s")
    for change in (host.destroy, host.suspend, host.resume):
        unreachable(on, refusal(lambda change=change: change(uuid, SHORT)), f"no answer within {SHORT:.0f} s")  # type: ignore[misc]
    on.go_on()
    on.eventually(lambda: answers(host), "an answer")
    becomes(on, Power.RUNNING)


def answers(host: LibvirtHost) -> bool:
    try:
        host.guests()
    except ExternalError:
        return False
    return True


@case
def a_subscription_of_a_libvirtd_that_hangs(on: Hypervisor) -> None:
    """Its keep-alives find out, after a while."""
    with hearing(on) as heard:
        on.hang()
        assert on.host.alive()
        assert heard.lost == []
        on.eventually(lambda: not on.host.alive(), "the end of the connection")
        on.go_on()
        on.eventually(lambda: answers(on.host), "an answer")
        assert not on.host.alive()
    with hearing(on) as again:
        on.start()
        again.hears(*STARTED)
