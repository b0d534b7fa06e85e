"""What notifications and tables say, from their variables; and what Zabbix is sent."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcrecovery.relay.guests import Row
from vcrecovery.relay.notification import Notification, of_snmpd, read_notification
from vcrecovery.relay.outbox import Value
from vcrecovery.relay.own_engine import machine_id, start_engine
from vcrecovery.relay.trapper import request
from vcrecovery.relay.walk import COLUMNS, NON_REPEATERS, Variable, Walk
from vcrecovery.snmp.mib import ENTERPRISE, ENTERPRISES, Column, Extra, GuestState, Oid, column, scalar

UUID = "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0abc"
RAW = uuid.UUID(UUID).bytes
TRAP_OID: Oid = (1, 3, 6, 1, 6, 3, 1, 1, 4, 1, 0)
UPTIME: Oid = (1, 3, 6, 1, 2, 1, 1, 3, 0)


def notification(enterprise: Oid = ENTERPRISE, /, **cells: object) -> Notification | None:
    """`cells` are named as in Column and Extra. Without the clock, which is always the same here."""
    variables: list[Variable] = [(UPTIME, 1), (TRAP_OID, (*enterprise, 0, 1))]
    for name, value in cells.items():
        which = Extra[name] if name in Extra.__members__ else Column[name]
        variables.append((scalar(which, enterprise), value))  # type: ignore[arg-type]
    found = read_notification(variables)
    assert found is None or found.uptime == 1
    return found and replace(found, uptime=None)


@pytest.mark.parametrize("enterprise", ENTERPRISES)
def test_a_notification_of_libvirt_snmp(enterprise: Oid) -> None:
    found = notification(enterprise, NAME=b"web-vm", UUID=RAW, STATE=5, ROW_STATUS=2)
    assert found == Notification(UUID, GuestState.SHUTOFF, "web-vm")


def test_a_notification_of_this_projects_agent() -> None:
    found = notification(NAME=b"web-vm", UUID=RAW, STATE=5, EVENT=b"stopped", DETAIL=b"crashed", HOST=b"hv1")
    assert found == Notification(UUID, GuestState.SHUTOFF, "web-vm", "stopped", "crashed")


def test_the_uuid_as_the_index() -> None:
    variables: list[Variable] = [(TRAP_OID, (*ENTERPRISE, 0, 1)), (column(Column.STATE, uuid.UUID(UUID)), 1)]
    assert read_notification(variables) == Notification(UUID, GuestState.RUNNING)


@pytest.mark.parametrize("text", [UUID.upper(), UUID, UUID.replace("-", "").upper()])
def test_the_uuid_as_text(text: str) -> None:
    assert notification(UUID=text.encode(), STATE=1) == Notification(UUID, GuestState.RUNNING)


@pytest.mark.parametrize(
    "cells",
    [
        {},
        {"UUID": RAW},
        {"STATE": 5},
        {"UUID": RAW, "STATE": 99},
        {"UUID": RAW, "STATE": b"5"},
        {"UUID": RAW[:-1], "STATE": 5},
        {"UUID": b"\xff" * 36, "STATE": 5},
        {"UUID": 7, "STATE": 5},
    ],
)
def test_what_says_nothing_of_a_guest(cells: dict[str, object]) -> None:
    assert notification(**cells) is None


@pytest.mark.parametrize(
    ("what", "own"),
    [
        ((1, 3, 6, 1, 6, 3, 1, 1, 5, 1), True),  # coldStart
        ((1, 3, 6, 1, 4, 1, 8072, 4, 0, 2), True),  # nsNotifyShutdown
        ((1, 3, 6, 1, 4, 1, 8072, 4, 1), False),
        ((*ENTERPRISE, 0, 2), False),
        (7, False),
    ],
)
def test_other_notifications(what: Oid | int, own: bool) -> None:
    variables: list[Variable] = [(UPTIME, 1), (TRAP_OID, what)]
    assert read_notification(variables) is None
    assert of_snmpd(variables) is own
    assert read_notification([]) is None


@pytest.mark.parametrize(("number", "state"), [(0, GuestState.RUNNING), (7, GuestState.PAUSED)])
def test_states_that_the_mib_has_no_number_for(number: int, state: GuestState) -> None:
    """libvirt-snmp sends libvirt's own: no state, and suspended by the guest itself."""
    assert notification(UUID=RAW, STATE=number) == Notification(UUID, state)
    cells = table_cells(1) | {column(Column.STATE, uuid.UUID(int=0)): number}
    walk = Walk(ENTERPRISE)
    while not walk.answer(Snmpd(cells, 100).answer(walk.ask(), walk.rows_at_once)):
        pass
    assert [row.state for row in walk.table().rows] == [state]


def test_how_long_a_notification_has_waited() -> None:
    assert notification(UUID=RAW, STATE=5, AGE=1250) == Notification(UUID, GuestState.SHUTOFF, age=12.5)
    assert notification(UUID=RAW, STATE=5, AGE=b"x") == Notification(UUID, GuestState.SHUTOFF)


def test_words_that_are_none_of_libvirts_do_not_travel_on() -> None:
    found = notification(UUID=RAW, STATE=5, NAME=b"a\n\x00b\xff", EVENT=b"stopped", DETAIL=b"$(reboot)")
    assert found == Notification(UUID, GuestState.SHUTOFF, "ab\ufffd", "stopped", "")


class Snmpd:
    """Answers GETBULK from a dictionary, with at most so many variables beside the single ones."""

    def __init__(self, cells: dict[Oid, bytes | int], room: int) -> None:
        self._cells, self._room = cells, room
        self._keys = sorted(cells)

    def _next(self, oid: Oid) -> Variable:
        key = next((key for key in self._keys if key > oid), None)
        return (oid, None) if key is None else (key, self._cells[key])

    def answer(self, asked: list[Oid], rows: int) -> list[Variable]:
        found = [self._next(oid) for oid in asked[:NON_REPEATERS]]
        places, repeated = asked[NON_REPEATERS:], list[Variable]()
        for _ in range(rows):
            line = [self._next(oid) for oid in places]
            places = [oid for oid, _ in line]
            repeated += line
        return found + repeated[: max(self._room, 1)]


def table_cells(count: int, libvirt: int | None = None) -> dict[Oid, bytes | int]:
    cells: dict[Oid, bytes | int] = {UPTIME: 1234, (2, 1): 7}
    if libvirt is not None:
        cells[scalar(Extra.LIBVIRT)] = libvirt
    for number in range(count):
        index = uuid.UUID(int=(number * 0x9E3779B97F4A7C15F39CC0605CEDC835) % 2**128)
        for which in Column:
            cells[column(which, index)] = b"vm" if which is Column.NAME else 1
        cells[column(Column.CPU_TIME, index)] = 10**12 + number
    return cells


@given(
    count=st.integers(0, 60), room=st.integers(1, 120), rows=st.integers(1, 30), libvirt=st.sampled_from([1, 2, None])
)
def test_a_table_is_read_whole_wherever_answers_end(count: int, room: int, rows: int, libvirt: int | None) -> None:
    agent, walk = Snmpd(table_cells(count, libvirt), room), Walk(ENTERPRISE)
    for _ in range(len(COLUMNS) * (count + 2)):
        if walk.answer(agent.answer(walk.ask(), rows)):
            break
    table = walk.table()
    assert table.uptime == 1234
    assert table.libvirt is {1: True, 2: False, None: None}[libvirt]
    assert sorted(row.cpu_time for row in table.rows) == [10**12 + number for number in range(count)]
    assert all(row == Row(row.uuid, "vm", GuestState.RUNNING, 1, row.cpu_time, 1234) for row in table.rows)


@pytest.mark.parametrize(
    "variables",
    [
        [],
        [(UPTIME, 1)],
        [((1, 3), 1), ((1, 3), 1)],
        [(UPTIME, None), ((1, 3), 1)],
        [(UPTIME, 1), ((1, 3), 1)],
    ],
)
def test_answers_that_are_none(variables: list[Variable]) -> None:
    with pytest.raises(ValueError, match="it"):
        Walk(ENTERPRISE).answer(variables)


def test_a_table_that_goes_in_circles() -> None:
    walk = Walk(ENTERPRISE)
    line: list[Variable] = [(column(which, uuid.UUID(UUID)), 1) for which in COLUMNS]
    assert not walk.answer([(UPTIME, 1), ((1, 3), None), *line])
    with pytest.raises(ValueError, match="backwards"):
        walk.answer([(UPTIME, 2), ((1, 3), None), *line])


def test_a_request_for_zabbix() -> None:
    data = request([Value("hv1", "vcr.heartbeat", "1", 1700000000.25)])
    assert data[:5] == b"ZBXD\x01"
    assert int.from_bytes(data[5:9], "little") == len(data) - 13
    assert json.loads(data[13:]) == {
        "request": "sender data",
        "data": [{"host": "hv1", "key": "vcr.heartbeat", "value": "1", "clock": 1700000000, "ns": 250000000}],
    }


#: Seconds of Unix, in 2026, and the same in minutes since 2024.
NOW, MINUTES = 1795300000.0, 1520546
LISTEN = "192.0.2.60:162"


def test_the_relays_engine_keeps_its_id_and_its_boots_grow_even_if_the_file_is_lost(tmp_path: Path) -> None:
    file = tmp_path / "relay" / "engine.json"
    first, second = (start_engine(file, "machine", LISTEN, NOW) for _ in range(2))
    assert (first.boots, second.boots) == (MINUTES, MINUTES + 1)
    file.write_text('{"engine_id": "zz"')
    third = start_engine(file, "machine", LISTEN, NOW + 120)
    assert third.boots == MINUTES + 2
    assert first.engine_id == second.engine_id == third.engine_id
    assert 5 <= len(first.engine_id) <= 32
    assert start_engine(file, "machine", LISTEN, 0).boots == MINUTES + 3, "its clock was set back"


def test_engines_of_other_machines_and_addresses_have_other_ids(tmp_path: Path) -> None:
    file = tmp_path / "engine.json"
    places = (("machine", LISTEN), ("other", LISTEN), ("machine", "192.0.2.60:1162"))
    assert len({start_engine(file, *place, NOW).engine_id for place in places}) == 3


def test_an_engine_of_a_machine_without_an_id_is_kept_in_its_file(tmp_path: Path) -> None:
    file = tmp_path / "engine.json"
    first, second = (start_engine(file, "", LISTEN, 0) for _ in range(2))
    assert (first.boots, second.boots) == (1, 2)
    assert first.engine_id == second.engine_id
    file.unlink()
    assert start_engine(file, "", LISTEN, 0).engine_id != first.engine_id
    assert machine_id(tmp_path / "none") == ""
