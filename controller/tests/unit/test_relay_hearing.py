"""When a hypervisor counts as heard: an agent that answers but knows nothing of the guests is silent."""

from __future__ import annotations

import logging
from ipaddress import IPv4Address
from typing import Literal

import pytest

from vcrecovery.plan.monitoring import COPY_POLL, SnmpAgent
from vcrecovery.relay.guests import Guests, Row, Table
from vcrecovery.relay.hearing import Hearing
from vcrecovery.relay.notification import Notification
from vcrecovery.snmp.mib import GuestState

WEB, OTHER = "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0abc", "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0def"
ROW = Row(WEB, "web-vm", GuestState.RUNNING, 1, 0, 0)
Kind = Literal["vcrecovery", "libvirt-snmp"]


def hearing(kind: Kind = "libvirt-snmp", *, primaries: dict[str, str] | None = None, poll: float = 5) -> Hearing:
    agent = SnmpAgent(address=IPv4Address("192.0.2.31"), user="relay", agent=kind)
    return Hearing("hv1", agent, poll, {WEB: "web"} if primaries is None else primaries)


def table(*rows: Row, libvirt: bool | None = None) -> Table:
    return Table(1000, rows, libvirt)


def words(said: list[tuple[int, str]]) -> str:
    return "; ".join(sentence for _, sentence in said)


@pytest.mark.parametrize(
    ("kind", "libvirt", "told"),
    [
        ("libvirt-snmp", None, "its table is empty; restart it there: systemctl restart vcrecovery-libvirt-snmp"),
        (
            "vcrecovery",
            False,
            "libvirt does not answer it; look there at libvirtd and snmpd: systemctl status libvirtd",
        ),
        ("vcrecovery", None, "has lost libvirt: its table is empty; look there"),
    ],
)
def test_an_agent_without_libvirt_is_silent_at_the_second_answer(kind: Kind, libvirt: bool | None, told: str) -> None:
    heard = hearing(kind)
    alive = table(ROW, libvirt=None if kind == "libvirt-snmp" else True)
    assert "answers, 1 guest" in words(heard.answered(alive, guests_on=False))
    lost = table(libvirt=libvirt)
    assert not heard.answered(lost, guests_on=True)
    assert not heard.silent
    ((level, said),) = heard.answered(lost, guests_on=True)
    assert (level, heard.silent, heard.empty) == (logging.WARNING, True, 2)
    assert told in said
    assert not heard.answered(lost, guests_on=True), "it is said once"
    assert "answers, 1 guest" in words(heard.answered(alive, guests_on=True))
    assert not heard.silent
    assert not heard.answered(lost, guests_on=True)
    assert not heard.silent, "only answers in a row count"


def test_an_agent_that_never_had_libvirt_is_silent_where_the_plan_has_primaries() -> None:
    heard = hearing()
    for _ in range(2):
        heard.answered(table(), guests_on=False)
    assert heard.silent


@pytest.mark.parametrize("guests_on", [True, False])
def test_an_empty_hypervisor_is_silent_only_if_guests_ran_there(guests_on: bool) -> None:
    heard = hearing(primaries={})
    for _ in range(3):
        heard.answered(table(), guests_on=guests_on)
    assert heard.silent is guests_on


def test_an_empty_table_of_a_libvirt_that_answers_is_good() -> None:
    heard = hearing("vcrecovery", primaries={})
    for _ in range(3):
        heard.answered(table(libvirt=True), guests_on=True)
    assert heard.silent is False


def test_each_reason_for_silence_is_said_once() -> None:
    heard = hearing()
    assert words(heard.failed("no answer")) == "no answer"
    assert not heard.failed("no answer")
    assert not heard.answered(table(), guests_on=True)
    assert heard.silent, "one empty table is no sign of life"
    assert "has lost libvirt" in words(heard.answered(table(), guests_on=True))
    assert words(heard.failed("no answer")) == "no answer"


def test_an_agent_that_never_says_whether_libvirt_answers_is_asked_at_the_pace_of_copies() -> None:
    heard = hearing("vcrecovery")
    assert heard.pace == 5
    said = words(heard.answered(table(ROW), guests_on=False))
    assert "is asked every 6 s, as libvirt-snmp" in said
    assert "say hypervisors.hv1.snmp.agent: libvirt-snmp in the plan" in said
    assert heard.pace == COPY_POLL
    assert not heard.answered(table(ROW), guests_on=True)


@pytest.mark.parametrize(
    ("kind", "poll", "pace"), [("libvirt-snmp", 5, 6), ("libvirt-snmp", 9, 9), ("vcrecovery", 1, 1)]
)
def test_the_pace_of_the_plan(kind: Kind, poll: float, pace: float) -> None:
    heard = hearing(kind, poll=poll)
    assert heard.pace == pace
    assert "asked every" not in words(heard.answered(table(ROW, libvirt=None if pace > 1 else True), guests_on=True))


def test_half_a_table_is_told_by_the_primaries_that_it_lacks() -> None:
    """libvirt-snmp ends its table at the first guest that libvirt says nothing of."""
    heard = hearing(primaries={WEB: "web", OTHER: "db"})
    heard.answered(table(ROW), guests_on=True)
    said = words(heard.answered(table(ROW), guests_on=True))
    assert "does not show the primary of db" in said
    assert not heard.answered(table(ROW), guests_on=True)
    assert not heard.silent
    whole = table(ROW, Row(OTHER, "db-vm", GuestState.SHUTOFF, 1, 0, 0))
    heard.answered(whole, guests_on=True)
    heard.answered(table(ROW), guests_on=True)
    assert "db" in words(heard.answered(table(ROW), guests_on=True))


def test_which_guests_are_on() -> None:
    guests = Guests({})
    assert not guests.any_on()
    for state, on in ((GuestState.RUNNING, True), (GuestState.SHUTOFF, False), (GuestState.PAUSED, True)):
        guests.notified(Notification(WEB, state), 1000.0)
        assert guests.any_on() is on


def test_a_hypervisor_whose_guests_were_migrated_is_heard() -> None:
    heard = hearing()
    heard.answered(table(ROW), guests_on=False)
    for _ in range(3):
        assert not heard.answered(table(), guests_on=False, elsewhere=lambda uuid: uuid == WEB)
    assert not heard.silent
    # Nor is one of them missed where others are left.
    rest = Row(OTHER, "other", GuestState.RUNNING, 1, 0, 0)
    for _ in range(3):
        assert not heard.answered(table(rest), guests_on=True, elsewhere=lambda uuid: uuid == WEB)
    heard.answered(table(rest), guests_on=True)
    assert "does not show the primary of web" in words(heard.answered(table(rest), guests_on=True))
