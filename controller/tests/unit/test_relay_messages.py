"""What notifications and tables say, from their variables; and what Zabbix is sent."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcrecovery.relay.guests import Row
from vcrecovery.relay.notification import Notification, read_notification
from vcrecovery.relay.outbox import Value
from vcrecovery.relay.own_engine import start_engine
from vcrecovery.relay.trapper import request
from vcrecovery.relay.walk import COLUMNS, NON_REPEATERS, Variable, Walk
from vcrecovery.snmp.mib import ENTERPRISE, ENTERPRISES, Column, Extra, GuestState, Oid, column, scalar

UUID = "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0abc"
RAW = uuid.UUID(UUID).bytes
TRAP_OID: Oid = (1, 3, 6, 1, 6, 3, 1, 1, 4, 1, 0)
UPTIME: Oid = (1, 3, 6, 1, 2, 1, 1, 3, 0)


def notification(enterprise: Oid = ENTERPRISE, /, **cells: object) -> Notification | None:
    """`cells` are named as in Column and Extra."""
    variables: list[Variable] = [(UPTIME, 1), (TRAP_OID, (*enterprise, 0, 1))]
    for name, value in cells.items():
        which = Extra[name] if name in Extra.__members__ else Column[name]
        variables.append((scalar(which, enterprise), value))  # type: ignore[arg-type]
    return read_notification(variables)


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


def test_other_notifications() -> None:
    assert read_notification([(TRAP_OID, (1, 3, 6, 1, 6, 3, 1, 1, 5, 3))]) is None
    assert read_notification([]) is None


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


def test_the_relays_engine_keeps_its_id_and_counts_its_starts(tmp_path: Path) -> None:
    file = tmp_path / "relay" / "engine.json"
    first, second = start_engine(file), start_engine(file)
    assert (first.boots, second.boots) == (1, 2)
    assert first.engine_id == second.engine_id
    assert 5 <= len(first.engine_id) <= 32
    file.write_text('{"engine_id": "zz"')
    assert start_engine(file).boots == 1
