"""What makes machines and ends them: a cloud, behind the operator's command or another way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from contracts.cases import Cases, refusal
from vcrecovery.drivers.provisioner import Made


class Cloud(Protocol):
    """No machine exists at first."""

    def create(self, order: Mapping[str, Any]) -> list[Made]: ...

    def describe(self, order: Mapping[str, Any]) -> list[Made]: ...

    def destroy(self, order: Mapping[str, Any]) -> list[Made]: ...

    def order(self, lease: str) -> dict[str, Any]:
        """All that is needed to make one."""

    def break_it(self) -> None:
        """From now on it can do nothing, and says so."""


case = Cases[Cloud]()
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
def what_cannot_be_done_is_said(on: Cloud) -> None:
    order = on.order(ONE)
    on.break_it()
    for call in (on.create, on.describe, on.destroy):
        refusal(lambda call=call: call(order))  # type: ignore[misc]
