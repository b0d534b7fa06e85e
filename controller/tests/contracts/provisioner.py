"""What makes machines and ends them: a cloud, behind the operator's command or another way."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from contracts.cases import Cases, refusal
from vcrecovery.drivers.provisioner import Made
from vcrecovery.errors import ExternalError


class Cloud(Protocol):
    """No machine exists at first."""

    def create(self, order: Mapping[str, Any]) -> list[Made]: ...

    def describe(self, order: Mapping[str, Any]) -> list[Made]: ...

    def destroy(self, order: Mapping[str, Any]) -> list[Made]: ...

    def order(self, lease: str) -> dict[str, Any]:
        """All that is needed to make one."""

    def everything(self) -> set[str]:
        """All that there is there, whole or not, and whoever has it."""

    def strangers(self) -> None:
        """Somebody else makes a machine there, which has the same name."""

    def killed(self, order: Mapping[str, Any]) -> Iterator[None]:
        """Has one made by somebody who is killed, again and again, each time a step later. Nothing is left at last."""

    def break_it(self) -> None:
        """From now on it can do nothing, and says so."""

    def hang(self) -> None:
        """From now on it takes calls, and answers none. They may last for a second."""


case = Cases[Cloud]()
#: Seconds in which a call is given up that may last for one, on a slow machine that is busy.
SOON = 30.0
ONE, OTHER = "0" * 31 + "1", "0" * 31 + "2"


def _known(order: Mapping[str, Any]) -> dict[str, Any]:
    """What is left of it when it is to be found again."""
    return {key: order[key] for key in ("lease", "name", "options")}


@case
def one_that_is_made_is_there(on: Cloud) -> None:
    order = on.order(ONE)
    (made,) = on.create(order)
    (seen,) = on.describe(_known(order))
    assert seen.id == made.id


@case
def made_twice_it_is_the_same_one(on: Cloud) -> None:
    order = on.order(ONE)
    first = on.create(order)
    assert [one.id for one in on.create(order)] == [one.id for one in first]
    assert len(on.describe(_known(order))) == 1


@case
def nothing_is_there_before(on: Cloud) -> None:
    assert on.describe(_known(on.order(ONE))) == []


@case
def what_is_destroyed_is_gone(on: Cloud) -> None:
    order = on.order(ONE)
    on.create(order)
    assert on.destroy(_known(order)) == []
    assert on.describe(_known(order)) == []


@case
def what_is_not_there_is_destroyed_all_the_same(on: Cloud) -> None:
    for _ in range(2):
        assert on.destroy(_known(on.order(ONE))) == []


@case
def another_leases_machine_is_another(on: Cloud) -> None:
    first, second = on.order(ONE), on.order(OTHER)
    (one,), (other,) = on.create(first), on.create(second)
    assert one.id != other.id
    on.destroy(_known(first))
    assert [made.id for made in on.describe(_known(second))] == [other.id]
    on.destroy(_known(second))


@case
def what_is_not_ours_is_not_touched(on: Cloud) -> None:
    order = on.order(ONE)
    on.strangers()
    theirs = on.everything()
    assert theirs
    assert on.describe(_known(order)) == []
    assert on.destroy(_known(order)) == []
    on.create(order)
    assert on.everything() > theirs
    on.destroy(_known(order))
    assert on.everything() == theirs


@case
def one_whose_maker_was_killed_is_finished(on: Cloud) -> None:
    order, before = on.order(ONE), on.everything()
    for _ in on.killed(order):
        half = on.describe(_known(order))
        (made,) = on.create(order)
        assert half in ([], [made])
        assert on.describe(_known(order)) == [made]
        assert on.destroy(_known(order)) == []
        assert on.everything() == before


@case
def of_one_whose_maker_was_killed_nothing_is_left(on: Cloud) -> None:
    order, before = on.order(ONE), on.everything()
    for _ in on.killed(order):
        assert on.destroy(_known(order)) == []
        assert on.everything() == before


@case
def what_cannot_be_done_is_said(on: Cloud) -> None:
    order = on.order(ONE)
    on.break_it()
    for call in (on.create, on.describe, on.destroy):
        _is_one_line(refusal(lambda call=call: call(order)))  # type: ignore[misc]


@case
def what_hangs_is_given_up(on: Cloud) -> None:
    order = on.order(ONE)
    on.hang()
    for call in (on.create, on.describe, on.destroy):
        began = time.monotonic()
        _is_one_line(refusal(lambda call=call: call(order)))  # type: ignore[misc]
        assert time.monotonic() - began < SOON


def _is_one_line(error: ExternalError) -> None:
    assert error.message
    assert "\n" not in str(error)
