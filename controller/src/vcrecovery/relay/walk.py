"""Which variables of an agent to ask for, and what its answers mean. Pure.

Each question is a GETBULK for the agent's clock, whether libvirt answers it, and the next rows of four columns. Answers
end anywhere: where the agent's message is full.

An agent that never says whether libvirt answers (libvirt-snmp) answers from a copy, which it may make anew between two
rows. So a CPU time of the first rows is read once more at the end: where it is another one, the walk is torn.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from vcrecovery.relay.guests import Row, Table
from vcrecovery.relay.notification import text_of
from vcrecovery.snmp.guest_state import guest_state
from vcrecovery.snmp.mib import EXTRA, TABLE_ENTRY, Column, Extra, GuestState, LibvirtAnswer, Oid

Variable = tuple[Oid, "bytes | int | Oid | None"]

#: In the order in which they are asked for; CPU time last, so that its row is whole.
COLUMNS = (Column.NAME, Column.STATE, Column.CPU_COUNT, Column.CPU_TIME)
NON_REPEATERS = 2

_UPTIME: Oid = (1, 3, 6, 1, 2, 1, 1, 3)
_UUID_LENGTH = 16


class Walk:
    """One reading of the table below `enterprise`, of any number of answers."""

    def __init__(self, enterprise: Oid) -> None:
        self._libvirt: Oid = (*enterprise, *EXTRA, int(Extra.LIBVIRT))
        self._columns = [(*enterprise, *TABLE_ENTRY, int(column)) for column in COLUMNS]
        self._places = list(self._columns)
        self._asked: list[int] = list(range(len(COLUMNS)))
        self._cells: list[dict[Oid, object]] = [{} for _ in COLUMNS]
        self._uptimes: dict[Oid, int] = {}
        self._uptime: int | None = None
        self._answers: bool | None = None
        self._again: Oid | None = None
        self._torn = False

    def ask(self) -> list[Oid]:
        """What to send: `NON_REPEATERS` single objects, then the places to go on from in each unfinished column."""
        if self._again is not None:
            return [_UPTIME, self._libvirt, _just_before(self._again)]
        return [_UPTIME, self._libvirt, *(self._places[number] for number in self._asked)]

    @property
    def rows_at_once(self) -> int:
        """4 columns of so many rows are as many variables as snmpd gives in one answer (maxGetbulkResponses 100)."""
        return 24 if self._again is None else 1

    def answer(self, variables: Sequence[Variable]) -> bool:
        """True when the table is complete.

        Raises ValueError when this is no answer to what was asked, or when the agent does not get on.
        """
        if len(variables) < NON_REPEATERS:
            raise ValueError("its answer is too short")
        uptime = self._single(variables[0], _UPTIME)
        if uptime is None:
            raise ValueError("it has no sysUpTime")
        if self._again is not None:
            self._torn = (self._again, self._cells[-1][self._again[-_UUID_LENGTH:]]) not in variables[NON_REPEATERS:]
            return True
        if self._uptime is None:
            self._uptime = uptime
            said = self._single(variables[1], self._libvirt)
            self._answers = None if said is None else said == LibvirtAnswer.ANSWERS
        ended = set()
        moved = False
        for place, (oid, value) in enumerate(variables[NON_REPEATERS:]):
            number = self._asked[place % len(self._asked)]
            column = self._columns[number]
            if value is None or oid[: len(column)] != column:
                ended.add(number)
            elif number not in ended:
                if oid <= self._places[number]:
                    raise ValueError("its table goes backwards")
                self._places[number], moved = oid, True
                index = oid[len(column) :]
                self._cells[number][index] = value
                if COLUMNS[number] is Column.CPU_TIME:
                    self._uptimes[index] = uptime
        self._asked = [number for number in self._asked if number not in ended]
        if self._asked and not moved and not ended:
            raise ValueError("its answer has no rows")
        if self._asked:
            return False
        if self._answers is None:
            self._again = self._one_that_runs()
        return self._again is None

    def _one_that_runs(self) -> Oid | None:
        """The CPU time of the first guest that has some and runs: where that stands still, nothing shows a new copy."""
        _, states, _, times = self._cells
        running = (index for index in times if states.get(index) == GuestState.RUNNING and len(index) == _UUID_LENGTH)
        index = next(running, None)
        return None if index is None else (*self._columns[-1], *index)

    @staticmethod
    def _single(variable: Variable, below: Oid) -> int | None:
        oid, value = variable
        return value if isinstance(value, int) and oid[: len(below)] == below else None

    def table(self) -> Table:
        """Rows that are not whole are left out: the guest came or went during the reading."""
        names, states, counts, times = self._cells
        rows = []
        for index, uptime in self._uptimes.items():
            if self._answers is None and self._uptime is not None:
                uptime = self._uptime  # the copy was made for the first question
            name, state, count, time = (cells.get(index) for cells in (names, states, counts, times))
            if len(index) != _UUID_LENGTH or max(index) > 0xFF:
                continue
            if not (isinstance(state, int) and isinstance(count, int) and isinstance(time, int)):
                continue
            rows.append(Row(str(UUID(bytes=bytes(index))), text_of(name), guest_state(state), count, time, uptime))
        return Table(self._uptime or 0, tuple(rows), self._answers, self._torn)


def _just_before(oid: Oid) -> Oid:
    """What GETNEXT has to be asked for to get `oid`, if it is there: all of its neighbours are as long as it is."""
    return (*oid[:-1], oid[-1] - 1) if oid[-1] else oid[:-1]
