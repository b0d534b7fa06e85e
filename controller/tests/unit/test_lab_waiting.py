"""What the lab's tests wait with: a machine that stands still uses up nobody's patience."""

from __future__ import annotations

import pytest

from vcrecovery_lab.pair.waiting import Deadline, wait_until
from vcrecovery_lab.run import LabError


class Machine:
    """Each pause takes `longer` seconds more than it was asked for."""

    def __init__(self, longer: float) -> None:
        self.now, self._longer = 100.0, longer

    def sleep(self, seconds: float) -> None:
        self.now += seconds + self._longer


@pytest.mark.parametrize(("longer", "pauses"), [(0.0, 4), (30.0, 4)])
def test_a_stall_is_not_counted(longer: float, pauses: int) -> None:
    machine = Machine(longer)
    deadline, found = Deadline(3.5, lambda: machine.now, machine.sleep), 0
    while not deadline.is_over:
        deadline.pause(1.0)
        found += 1
    assert (found, deadline.stalled) == (pauses, longer * pauses)


def test_what_the_condition_itself_takes_is_counted() -> None:
    machine = Machine(0.0)
    deadline = Deadline(3.5, lambda: machine.now, machine.sleep)
    machine.sleep(4.0)
    assert deadline.is_over


def test_what_does_not_come_is_named() -> None:
    with pytest.raises(LabError, match=r"^the page has not come within 0 s"):
        wait_until(lambda: False, "the page", 0.01, 0.005)


def test_a_question_that_takes_long_is_asked_less_often() -> None:
    """An emulated machine would do nothing else than answer."""
    machine, asked = Machine(0.0), []

    def condition() -> bool:
        asked.append(machine.now)
        machine.sleep(2.0)
        return len(asked) == 3

    wait_until(condition, "the page", 60.0, clock=lambda: machine.now, sleep=machine.sleep)
    assert asked == [100.0, 104.0, 108.0]
