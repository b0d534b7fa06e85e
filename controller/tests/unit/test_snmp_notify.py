"""When libvirtGuestNotif is due, what it says, in which order it is sent, and what is wrong with its settings."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml

from vcrecovery.core.domain import DomainEvent
from vcrecovery.drivers.libvirt import Guest, LibvirtHost, words_of
from vcrecovery.errors import ExternalError, UsageError
from vcrecovery.snmp import notifier
from vcrecovery.snmp.guest_notification import Changes, GuestNotification, Listed
from vcrecovery.snmp.mib import ENTERPRISE, GuestState
from vcrecovery.snmp.notifier import Notifier, receivers_of
from vcrecovery.snmp.sender import Sender
from vcrecovery.snmp.settings import Destination, load_settings
from vcrecovery.snmp.sink import NotificationSink, variables
from vcrecovery.snmp.unconfirmed import Unconfirmed

A, B = UUID(int=1), UUID(int=2)
RUNNING, PAUSED, OFF = 1, 3, 5


def of(uuid: UUID, number: int = 0) -> GuestNotification:
    return GuestNotification(uuid, "vm", GuestState.RUNNING, "started", str(number), float(number))


# -- changes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "detail", "words", "state"),
    [
        (2, 0, ("started", "booted"), GuestState.RUNNING),
        (3, 2, ("suspended", "I/O error"), GuestState.PAUSED),
        (4, 0, ("resumed", "unpaused"), GuestState.RUNNING),
        (5, 0, ("stopped", "shutdown"), GuestState.SHUTOFF),
        (5, 1, ("stopped", "destroyed"), GuestState.SHUTOFF),
        (5, 2, ("stopped", "crashed"), GuestState.SHUTOFF),
        (5, 5, ("stopped", "failed"), GuestState.SHUTOFF),
        (5, 99, ("stopped", "99"), GuestState.SHUTOFF),
        (6, 1, ("shutdown", "guest"), GuestState.SHUTDOWN),
        (7, 0, ("pmsuspended", "memory"), GuestState.PAUSED),
        (8, 0, ("crashed", "panicked"), GuestState.CRASHED),
        (8, 1, ("crashed", "crashloaded"), GuestState.RUNNING),
        (0, 0, ("defined", "added"), None),
        (1, 0, ("undefined", "removed"), None),
        (42, 7, ("42", "7"), None),
    ],
)
def test_events(event: int, detail: int, words: tuple[str, str], state: GuestState | None) -> None:
    assert words_of(event, detail) == words
    found = Changes().event(A, "vm", *words, 1.0)
    assert (found.state if found else None) == state


def test_the_first_look_tells_nothing_and_the_next_what_changed() -> None:
    changes = Changes()
    listed = [Listed(A, "a", RUNNING, ""), Listed(B, "b", OFF, "destroyed")]
    assert changes.look(listed, 1.0, 1.0) == []
    assert changes.look(listed, 2.0, 2.0) == []
    [one] = changes.look([Listed(A, "a", OFF, "crashed"), Listed(B, "b", OFF, "destroyed")], 3.0, 3.5)
    assert (one.uuid, one.state, one.event, one.detail) == (A, GuestState.SHUTOFF, "stopped", "crashed")
    # A transient one that nobody can be asked about, and one that is new.
    changes.look([Listed(A, "a", RUNNING, "")], 4.0, 4.0)
    found = changes.look([Listed(B, "b", PAUSED, "")], 5.0, 5.0)
    assert [(n.uuid, n.event) for n in found] == [(B, "suspended"), (A, "stopped")]
    assert changes.look([Listed(B, "b", PAUSED, "")], 6.0, 6.0) == []


def test_what_was_defined_or_removed_meanwhile_has_not_changed_its_state() -> None:
    changes = Changes()
    changes.look([], 1.0, 1.0)
    assert changes.look([Listed(A, "a", OFF, "")], 2.0, 2.0) == []
    assert changes.look([], 3.0, 3.0) == []


def test_an_event_is_newer_than_a_list_that_was_asked_for_before() -> None:
    changes = Changes()
    changes.look([Listed(A, "a", RUNNING, ""), Listed(B, "b", RUNNING, "")], 1.0, 1.0)
    changes.event(A, "a", "stopped", "failed", 5.1)
    changes.event(B, "b", "stopped", "failed", 5.1)
    # The list was asked for at 5.0: it still shows A, and no longer the transient B.
    assert changes.look([Listed(A, "a", RUNNING, "")], 5.0, 5.2) == []
    [back] = changes.look([Listed(A, "a", RUNNING, "")], 6.0, 6.0)
    assert (back.uuid, back.event) == (A, "started")


def test_the_variables() -> None:
    notification = GuestNotification(A, "näme", GuestState.SHUTDOWN, "shutdown", "guest", 12.5)
    found: dict[str, Any] = {
        ".".join(map(str, oid[6:])): value
        for oid, value in variables(notification, "hv1", ENTERPRISE, started=2.5, now=14.0)
    }
    assert int(found["1.3.0"]) == 1000  # sysUpTime, in hundredths of a second
    assert bytes(found["36957.1.1.1.2.0"]) == "näme".encode()
    assert bytes(found["36957.1.1.1.1.0"]) == A.bytes
    assert int(found["36957.1.1.1.3.0"]) == 4
    assert int(found["36957.1.1.1.9.0"]) == 2  # as libvirt-snmp: one that shuts down is not in service
    assert [bytes(found[f"36957.1.2.{number}.0"]) for number in (1, 2, 3)] == [b"shutdown", b"guest", b"hv1"]
    assert int(found["36957.1.2.5.0"]) == 150  # how long it has waited


# -- following libvirt -----------------------------------------------------------------------------------------


class HangingHost(LibvirtHost):
    """Its connections open, but the first lists do not come."""

    def __init__(self, failures: int) -> None:
        super().__init__("hv1", "test:///default", read_only=True)
        self.failures = failures
        self.subscribed = self.ended = 0

    def subscribe(
        self,
        on_event: Callable[[DomainEvent], None],
        on_close: Callable[[], None],
        on_begin: Callable[[str], None] = lambda _uuid: None,
    ) -> Callable[[], None]:
        self.subscribed += 1

        def end() -> None:
            self.ended += 1

        return end

    def guests(self) -> list[Guest]:
        if self.failures > 0:
            self.failures -= 1
            raise ExternalError("hypervisor hv1 does not answer: no answer within 10 s", "x")
        return []

    def alive(self) -> bool:
        return True


def test_events_are_not_followed_twice_after_a_list_that_did_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifier, "RECONNECT_DELAY", 0.01)
    monkeypatch.setattr(notifier, "TICK", 0.01)

    async def follow(host: HangingHost) -> None:
        following = Notifier(host, [], asyncio.get_running_loop())
        following.start()
        while host.subscribed < 4:
            await asyncio.sleep(0.01)
        assert host.ended == 3
        following.stop()
        while host.ended < 4:
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(follow(HangingHost(3)), 10))


# -- the queue -------------------------------------------------------------------------------------------------


def test_of_one_vm_only_one_is_under_way() -> None:
    box = Unconfirmed(10)
    for number, uuid in enumerate((A, A, B)):
        box.put(of(uuid, number))
    first, second = box.take(), box.take()
    assert first == of(A, 0)
    assert second == of(B, 2)
    assert box.take() is None
    box.done(of(A, 0))
    assert box.take() == of(A, 1)


def test_a_full_box_drops_the_oldest() -> None:
    box = Unconfirmed(3)
    dropped = [box.put(of(A, number)) for number in range(5)]
    assert dropped == [None, None, None, of(A, 0), of(A, 1)]
    assert box.dropped == 2
    assert box.take() == of(A, 2)


class Fake:
    """A receiver that is away for the first `failures` attempts."""

    destination = Destination.model_validate({"address": "127.0.0.1", "user": "x"})

    def __init__(self, failures: int, confirms: bool = True) -> None:
        self.failures, self.confirms = failures, confirms
        self.got: list[GuestNotification] = []
        self.attempts = 0

    async def send(self, notification: GuestNotification) -> str:
        self.attempts += 1
        await asyncio.sleep(0)
        if self.attempts <= self.failures:
            return "no answer"
        self.got.append(notification)
        return ""


async def deliver(fake: Fake, notifications: list[GuestNotification], limit: int = 100) -> None:
    sender = Sender(fake, limit, retry_delay=0.001)
    running = asyncio.create_task(sender.run())
    for notification in notifications:
        sender.offer(notification)
    await sender.drain(30)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def test_each_vms_notifications_arrive_in_order_after_an_outage() -> None:
    fake = Fake(failures=50)
    sent = [of(uuid, number) for number in range(20) for uuid in (A, B)]
    asyncio.run(deliver(fake, sent))
    for uuid in (A, B):
        assert [n for n in fake.got if n.uuid == uuid] == [n for n in sent if n.uuid == uuid]


def test_what_is_dropped_is_counted_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    fake = Fake(failures=3)
    with caplog.at_level(logging.INFO, "vcrecovery.snmp"):
        asyncio.run(deliver(fake, [of(A, number) for number in range(8)], limit=5))
    assert fake.got[-1] == of(A, 7)
    assert "1 notification(s) dropped" in caplog.text
    assert caplog.text.count("its notifications are queued") == 1
    assert caplog.text.count("answers again") == 1


def test_a_trap_is_sent_once() -> None:
    fake = Fake(failures=1, confirms=False)
    asyncio.run(deliver(fake, [of(A, 0), of(A, 1)]))
    assert fake.got == [of(A, 1)]


# -- settings --------------------------------------------------------------------------------------------------


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    for name in ("auth", "privacy", "community"):
        (tmp_path / name).touch(mode=0o600)
        (tmp_path / name).write_text("long enough\n")
    user = {"auth_file": str(tmp_path / "auth"), "privacy_file": str(tmp_path / "privacy")}
    return {"host": "hv1", "users": {"vcr": user}, "destinations": [{"address": "127.0.0.1", "user": "vcr"}]}


def load(tmp_path: Path, settings: object) -> list[NotificationSink]:
    file = tmp_path / "snmp-agent.yml"
    file.write_text(settings if isinstance(settings, str) else yaml.safe_dump(settings))
    return receivers_of(load_settings(file))


def test_good_settings(tmp_path: Path, settings: dict[str, Any]) -> None:
    settings["destinations"].append(
        {"address": "10.0.0.1", "port": 1162, "community_file": str(tmp_path / "community")}
    )
    receivers = load(tmp_path, settings)
    # SNMPv3 informs are confirmed, SNMPv2c traps are not.
    assert [(str(receiver.destination), receiver.confirms) for receiver in receivers] == [
        ("127.0.0.1:162", True),
        ("10.0.0.1:1162", False),
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"host": "HV 1"}, "host: "),
        ({"hots": "x"}, "hots: "),
        ({"enterprise": 1}, "enterprise: "),
        ({"destinations": []}, "destinations: "),
        ({"destinations": [{"address": "relay.example.net", "user": "vcr"}]}, "destinations.0.address: "),
        ({"destinations": [{"address": "10.0.0.1"}]}, "give it a user (SNMPv3 informs) or a community_file"),
        ({"destinations": [{"address": "10.0.0.1", "user": "x"}]}, "there is no user 'x'"),
        ({"users": {"vcr": {}}}, "users.vcr.auth_file: Field required (and 1 more)"),
    ],
)
def test_bad_settings(tmp_path: Path, settings: dict[str, Any], change: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(tmp_path, settings | change)
    assert said in str(caught.value)
    assert "snmp-agent.yml" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "a: [", "\x00", "just words"])
def test_what_is_no_settings_at_all(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_secrets_are_only_the_owners(tmp_path: Path, settings: dict[str, Any]) -> None:
    (tmp_path / "auth").chmod(0o640)
    with pytest.raises(UsageError, match="can be read by others"):
        load(tmp_path, settings)
    (tmp_path / "auth").chmod(0o600)
    (tmp_path / "auth").write_text("short")
    with pytest.raises(UsageError, match="too short"):
        load(tmp_path, settings)
    (tmp_path / "auth").unlink()
    with pytest.raises(UsageError, match="cannot be read"):
        load(tmp_path, settings)
