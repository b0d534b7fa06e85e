"""Calls to a slow libvirtd: what only asks gets its answer, and what nobody waits for any more changes nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import libvirt
import pytest

from lab.waiting import wait_for
from vcrecovery.core.domain import DomainReading
from vcrecovery.core.power import Power
from vcrecovery.drivers.libvirt import MOST_AT_ONCE, MOST_SLOW, LibvirtHost, connection
from vcrecovery.errors import ExternalError

UUID = "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0001"


class SlowDomain:
    """Its QEMU has stopped: what needs it waits."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.waiting = 0
        self.done: list[str] = []
        self.state_waits = False

    def state(self) -> tuple[int, int]:
        if self.state_waits:
            self.waiting += 1
            self.goes_on.wait(60)
        return libvirt.VIR_DOMAIN_PAUSED, 1

    def autostart(self) -> bool:
        return False

    def isActive(self) -> bool:  # noqa: N802
        return True

    def destroy(self) -> None:
        self.waiting += 1
        self.goes_on.wait(60)
        self.done.append("destroyed")

    def resume(self) -> None:
        self.done.append("resumed")


class Daemon:
    def __init__(self, domain: SlowDomain) -> None:
        self._domain = domain

    def isAlive(self) -> bool:  # noqa: N802
        return True

    def setKeepAlive(self, *_: int) -> None: ...  # noqa: N802

    def close(self) -> None: ...

    def lookupByUUIDString(self, _uuid: str) -> SlowDomain:  # noqa: N802
        return self._domain

    def listAllDomains(self) -> list[Any]:  # noqa: N802
        return []


@pytest.fixture
def domain() -> Iterator[SlowDomain]:
    made = SlowDomain()
    yield made
    made.goes_on.set()


@pytest.fixture
def host(domain: SlowDomain, monkeypatch: pytest.MonkeyPatch) -> LibvirtHost:
    monkeypatch.setattr(connection, "start_event_loop", lambda: None)
    made = LibvirtHost("hv1", "test:///default", timeout=60.0)
    opened: Callable[[str], Daemon] = lambda _uri: Daemon(domain)  # noqa: E731
    monkeypatch.setattr(made, "_open", opened)
    return made


def test_one_that_is_not_ended_starts_with_its_host_as_before(
    host: LibvirtHost, domain: SlowDomain, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> None:
        raise libvirt.libvirtError("Failed to terminate process: Device or resource busy")

    starts_with_host = [1]
    monkeypatch.setattr(domain, "autostart", lambda: starts_with_host[-1])
    monkeypatch.setattr(domain, "isPersistent", lambda: True, raising=False)
    monkeypatch.setattr(domain, "setAutostart", starts_with_host.append, raising=False)
    monkeypatch.setattr(domain, "destroy", refused)
    with pytest.raises(ExternalError, match="hypervisor hv1 did not destroy VM"):
        host.destroy(UUID, 50)
    assert starts_with_host == [1, 0, 1]


@pytest.mark.parametrize("act", ["destroy", "suspend", "keep_off"])
def test_what_starts_with_its_host_is_told_of_before_it_does_so_no_more(
    act: str, domain: SlowDomain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody who is killed in between leaves a VM of which nobody knows that it did."""
    monkeypatch.setattr(connection, "start_event_loop", lambda: None)
    acts: list[str] = []
    made = LibvirtHost("hv1", "test:///default", timeout=60.0, keeps_off=lambda uuid: acts.append(f"told {uuid}"))
    monkeypatch.setattr(made, "_open", lambda _uri: Daemon(domain))
    monkeypatch.setattr(domain, "autostart", lambda: 1)
    monkeypatch.setattr(domain, "isActive", lambda: 0)
    monkeypatch.setattr(domain, "state", lambda: [libvirt.VIR_DOMAIN_PAUSED, 0], raising=False)
    monkeypatch.setattr(domain, "isPersistent", lambda: True, raising=False)
    monkeypatch.setattr(domain, "setAutostart", lambda value: acts.append(f"autostart {value}"), raising=False)
    getattr(made, act)(UUID, 50)
    assert acts == [f"told {UUID}", "autostart 0"]


@pytest.mark.parametrize(
    ("anew", "saved", "how"), [(True, True, "boots"), (True, False, "starts"), (False, True, "starts")]
)
def test_one_whose_memory_was_saved_boots_where_it_is_not_to_go_on(
    anew: bool, saved: bool, how: str, host: LibvirtHost, domain: SlowDomain, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = {libvirt.VIR_DOMAIN_START_FORCE_BOOT: "boots"}
    monkeypatch.setattr(domain, "isActive", lambda: False)
    monkeypatch.setattr(domain, "hasManagedSaveImage", lambda: saved, raising=False)
    monkeypatch.setattr(domain, "create", lambda: domain.done.append("starts"), raising=False)
    monkeypatch.setattr(domain, "createWithFlags", lambda said: domain.done.append(flags[said]), raising=False)
    assert host.start(UUID, with_host=False, anew=anew)
    assert domain.done == [how]


def test_a_guest_that_panicked_was_not_shut_down_by_anybody(
    host: LibvirtHost, domain: SlowDomain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libvirt counts its reasons for each state anew: that of a panic has the number of a shutdown."""
    panicked = libvirt.VIR_DOMAIN_CRASHED, libvirt.VIR_DOMAIN_CRASHED_PANICKED
    monkeypatch.setattr(domain, "state", lambda: panicked)
    monkeypatch.setattr(domain, "info", lambda: (panicked[0], 1024, 1024, 1, 5), raising=False)
    monkeypatch.setattr(domain, "UUIDString", lambda: UUID, raising=False)
    monkeypatch.setattr(domain, "name", lambda: "web", raising=False)
    monkeypatch.setattr(Daemon, "listAllDomains", lambda _self: [domain])
    assert host.read(UUID) == DomainReading(Power.CRASHED, "panicked")
    assert host.usage([UUID])[UUID].reading == DomainReading(Power.CRASHED, "panicked")


def test_what_asks_does_not_wait_behind_what_ends_vms(host: LibvirtHost, domain: SlowDomain) -> None:
    for _ in range(2 * MOST_AT_ONCE):
        threading.Thread(target=lambda: host.destroy(UUID, 50), daemon=True).start()
    wait_for(lambda: domain.waiting >= MOST_SLOW, "as many as may be slow")
    assert host.guests() == []


def test_a_change_that_was_given_up_is_not_made_later(host: LibvirtHost, domain: SlowDomain) -> None:
    domain.state_waits = True
    with pytest.raises(ExternalError, match="does not answer"):
        host.resume(UUID, 0.2)
    threads = [thread for thread in threading.enumerate() if thread.name == "libvirt-hv1"]
    domain.goes_on.set()
    for thread in threads:
        thread.join(30)
    assert threads
    assert domain.done == []


@pytest.mark.parametrize(
    ("uri", "said", "first"),
    [
        (
            "qemu+ssh://kim@hv1/system",
            "Cannot recv data: Host key verification failed.: Connection reset by peer",
            "see that it is up, that hypervisor_fencing_keys of its role has root's SSH key, and root its host key",
        ),
        ("qemu+ssh://kim@hv1/system", "Failed to connect socket to 'x': No such file", "start libvirtd there"),
        ("qemu:///system", "Cannot recv data: Connection reset by peer", "start libvirtd there"),
    ],
)
def test_what_ssh_says_is_not_laid_on_libvirtd(
    monkeypatch: pytest.MonkeyPatch, uri: str, said: str, first: str
) -> None:
    def fail(_uri: str) -> None:
        raise libvirt.libvirtError(said)

    monkeypatch.setattr(libvirt, "open", fail)
    with pytest.raises(ExternalError) as caught:
        LibvirtHost("hv1", uri).read(UUID)
    way_out = f"{first}, and try `virsh -c {uri} list`"
    assert str(caught.value) == f"hypervisor hv1 ({uri}) does not answer: {said}; {way_out}"
