"""What machines that do not exist yet would take: the fewest that relieve, and none that does not."""

from __future__ import annotations

import pytest

from vcrecovery.balance.amounts import Amounts
from vcrecovery.balance.choice import Container, Machine
from vcrecovery.balance.new_machines import Growth, all_at_home, with_new_machines

GIB = float(1 << 30)
TARGETS, SIZE = Amounts(0.7, 0.8, 0.9, 0.7, 0.7), Amounts(2.0, 4 * GIB, 100 * GIB)
NAMES = ("elastic-1", "elastic-2", "elastic-3")


def machine(name: str, cpu: float, *, takes: bool = True) -> Machine:
    return Machine(name, SIZE, Amounts(cpu, 1.0 * GIB), takes)


def container(name: str, cpu: float, *places: str, on: str = "sec1", apart: frozenset[str] = frozenset()) -> Container:
    return Container(name, on, Amounts(cpu, 0.1 * GIB), places, 1.0, 1.0, apart)


def grown(machines: list[Machine], containers: list[Container], names: tuple[str, ...] = NAMES) -> Growth:
    may = {one.name for one in containers}
    return with_new_machines(machines, containers, TARGETS, ["sec1"], SIZE, names, may)


def moved(growth: Growth) -> dict[str, str]:
    return {move.container: move.to for move in growth.choice.moves}


def test_none_where_there_is_room() -> None:
    growth = grown([machine("sec1", 2.0), machine("sec2", 0.1)], [container("web", 0.7, "sec2")])
    assert (growth.new, moved(growth)) == ((), {"web": "sec2"})


def test_one_where_one_is_enough() -> None:
    growth = grown([machine("sec1", 2.0)], [container("web", 0.7), container("db", 0.5)])
    assert (list(growth.new), moved(growth)) == (["elastic-1"], {"web": "elastic-1"})
    assert growth.choice.short == {}


def test_two_where_one_is_not() -> None:
    """One that were to take both would be above its own target."""
    machines = [Machine("sec1", Amounts(4.0, 8 * GIB, 100 * GIB), Amounts(4.0, GIB))]
    growth = grown(machines, [container("web", 1.0), container("db", 1.0)])
    assert list(growth.new) == ["elastic-1", "elastic-2"]
    assert sorted(moved(growth).values()) == ["elastic-1", "elastic-2"]


def test_those_that_are_to_be_apart_are_apart_there_too() -> None:
    machines = [Machine("sec1", Amounts(2.0, 8 * GIB, 100 * GIB), Amounts(2.0, GIB))]
    apart = [container("a", 0.4, apart=frozenset("b")), container("b", 0.4, apart=frozenset("a"))]
    assert sorted(moved(grown(machines, apart)).values()) == ["elastic-1", "elastic-2"]
    together = [container("a", 0.4), container("b", 0.4)]
    assert list(grown(machines, together).new) == ["elastic-1"]


@pytest.mark.parametrize(
    "containers",
    [
        [],
        # Too large for any of them.
        [container("web", 1.9)],
        [Container("web", "sec1", Amounts(0.7), (), 1.0, 1.0, stays="pinned by the plan")],
    ],
)
def test_none_that_would_relieve_nothing(containers: list[Container]) -> None:
    assert list(grown([machine("sec1", 2.0)], containers).new) == []


def test_no_more_than_there_may_be_and_no_more_than_help() -> None:
    machines = [Machine("sec1", Amounts(8.0, 16 * GIB, 100 * GIB), Amounts(8.0, GIB))]
    many = [container(f"c{number}", 1.0) for number in range(8)]
    growth = grown(machines, many, NAMES[:1])
    assert (list(growth.new), len(growth.choice.moves)) == (["elastic-1"], 1)
    assert growth.choice.short
    # 2.4 cores are to be taken off, and there is one to take.
    one = grown(machines, many[:1])
    assert list(one.new) == ["elastic-1"]


def test_a_container_that_may_not_go_there_does_not() -> None:
    growth = with_new_machines(
        [machine("sec1", 2.0)], [container("web", 0.7)], TARGETS, ["sec1"], SIZE, NAMES, may=frozenset()
    )
    assert (list(growth.new), moved(growth)) == ([], {})


def test_all_of_it_goes_home_or_nothing_does() -> None:
    here = [container("web", 0.5, "sec1", on="elastic-1"), container("db", 0.5, "sec1", on="elastic-1")]
    homes = {"web": "sec1", "db": "sec1"}
    assert all_at_home([machine("sec1", 0.3), machine("elastic-1", 1.1)], here, homes, TARGETS)
    assert not all_at_home([machine("sec1", 0.5), machine("elastic-1", 1.1)], here, homes, TARGETS)
    assert not all_at_home([machine("sec1", 0.3, takes=False)], here, homes, TARGETS)
    # Of one of which nothing is known, nobody knows it.
    assert not all_at_home([machine("elastic-1", 1.1)], here, homes, TARGETS)
    assert all_at_home([machine("elastic-1", 0.1)], [], {}, TARGETS)
