"""An agent that answers from a copy of its table, as libvirt-snmp does: right values at its pace, else none.

The copy is made anew by the first question for a row after exactly 5.000 s, also in the middle of an answer.
"""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcrecovery.plan.monitoring import COPY_LIVES, COPY_POLL
from vcrecovery.relay.guests import Guests, Table
from vcrecovery.relay.walk import COLUMNS, NON_REPEATERS, Variable, Walk
from vcrecovery.snmp.mib import ENTERPRISE, Column, Oid, column

UUIDS = [uuid.UUID(f"6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e{number:04x}") for number in range(3)]
#: Per cent that each of them uses of its one CPU.
LOADS = [100, 37, 0]
UPTIME: Oid = (1, 3, 6, 1, 2, 1, 1, 3, 0)


class CopyingAgent:
    """Time goes on by `step` seconds with each variable that it answers."""

    def __init__(self, step: float = 0.0005) -> None:
        self.now, self._step = 100.0, step
        self._copied_at = float("-inf")
        self._copy: dict[Oid, bytes | int] = {}
        self.copies = 0

    def touch(self) -> None:
        """As any question of anybody for a row does."""
        if self.now - self._copied_at <= COPY_LIVES:
            return
        self._copied_at, self._copy = self.now, {}
        self.copies += 1
        for one, load in zip(UUIDS, LOADS, strict=True):
            self._copy[column(Column.NAME, one)] = b"vm"
            self._copy[column(Column.STATE, one)] = 1
            self._copy[column(Column.CPU_COUNT, one)] = 1
            self._copy[column(Column.CPU_TIME, one)] = 10**12 + int(self.now * load * 1e7)

    def _next(self, oid: Oid) -> Variable:
        self.now += self._step
        self.touch()
        keys = sorted(self._copy)
        place = bisect_right(keys, oid)
        return (keys[place], self._copy[keys[place]]) if place < len(keys) else (oid, None)

    def _answer(self, asked: list[Oid], rows: int) -> list[Variable]:
        found: list[Variable] = [(UPTIME, int(self.now * 100)), ((2, 1), None)]
        places = asked[NON_REPEATERS:]
        for _ in range(min(rows, len(UUIDS) + 1)):
            line = [self._next(oid) for oid in places]
            places = [oid for oid, _ in line]
            found += line
        return found

    def walk(self) -> Table:
        walk = Walk(ENTERPRISE)
        while not walk.answer(self._answer(walk.ask(), walk.rows_at_once)):
            pass
        return walk.table()


class Watched:
    """The agent, and what the relay makes of it."""

    def __init__(self, agent: CopyingAgent) -> None:
        self.agent, self._guests = agent, Guests({})

    def poll(self, at: float) -> list[float | None]:
        """The utilisation of each guest, from a poll that begins then."""
        self.agent.now = max(self.agent.now, at)
        begun = self.agent.now
        table = self.agent.walk()
        said = self._guests.polled(table, begun, self.agent.now)
        values = [said.get(f"vcr.cpu[{one}]") for one in UUIDS]
        return [None if value is None else float(value) for value in values]


def right(values: list[float | None]) -> list[object]:
    return [pytest.approx(load, abs=1) for load in LOADS] if None not in values else [None] * len(LOADS)


def beats(pace: float) -> Iterator[float]:
    at = 200.0
    while True:
        yield at
        at += pace


def test_at_its_pace_every_poll_but_the_first_has_every_value() -> None:
    watched, times = Watched(CopyingAgent()), beats(COPY_POLL)
    assert watched.poll(next(times)) == [None] * 3
    for _ in range(50):
        values = watched.poll(next(times))
        assert None not in values
        assert values == right(values)


@given(late=st.lists(st.floats(0, 0.2), min_size=20, max_size=60), pace=st.sampled_from([1.0, 4.0, 5.0, 6.0, 7.0]))
def test_at_any_pace_no_value_is_wrong(late: list[float], pace: float) -> None:
    watched, times = Watched(CopyingAgent()), beats(pace)
    for more in late:
        values = watched.poll(next(times) + more)
        assert values == right(values)


def test_a_copy_that_is_made_in_the_middle_of_a_walk_gives_no_value() -> None:
    """Somebody else asked the agent just so long before."""
    agent = CopyingAgent()
    watched = Watched(agent)
    watched.poll(200)
    for other in (0.0005, 0.003, 0.005):
        at = agent.now + 2 * COPY_POLL
        agent.now = at - COPY_LIVES + other
        agent.touch()
        before = agent.copies
        values = watched.poll(at)
        assert agent.copies == before + 1
        assert values == right(values)
        assert watched.poll(agent.now + COPY_POLL) == right([0])


def test_a_question_that_nobody_answered_made_a_copy_too() -> None:
    agent = CopyingAgent()
    guests, begun = Guests({}), agent.now
    guests.polled(agent.walk(), begun, agent.now)
    agent.now += COPY_POLL + 3
    agent.touch()
    guests.unanswered(agent.now + 1)
    agent.now += 4
    table = agent.walk()
    assert not guests.polled(table, agent.now - 0.1, agent.now).keys() & {f"vcr.cpu[{one}]" for one in UUIDS}


def test_an_answer_that_came_late_does_not_say_when_the_copy_was_made() -> None:
    agent = CopyingAgent()
    guests = Guests({})
    for lasted, values in ((0.0, 0), (0.0, 3), (2.0, 0), (0.0, 3)):
        agent.now += COPY_POLL
        begun = agent.now
        agent.touch()
        agent.now += lasted
        said = guests.polled(agent.walk(), begun, agent.now)
        assert sum(key.startswith("vcr.cpu") for key in said) == values


def test_all_columns_are_of_the_copy() -> None:
    assert len(CopyingAgent().walk().rows) == len(UUIDS)
    assert len(COLUMNS) == 4
