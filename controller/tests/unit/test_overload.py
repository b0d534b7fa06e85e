"""How loaded a secondary is, and when it counts as overloaded: not by one moment, and not back and forth."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from vcrecovery.balance.amounts import Amounts
from vcrecovery.balance.choice import Container, Machine, choose
from vcrecovery.balance.load import ContainerReading, Load, MachineReading, Reading, load_between, load_over
from vcrecovery.balance.overload import FORGOTTEN_AFTER, Course, Limits, after, high_in

GIB = 1 << 30
LIMITS = Limits(cpu_high=0.9, memory_high=0.9, target=0.7, high_for=120.0)
EVERY = 15.0


def reading(at: float, cpu: float, **more: object) -> Reading:
    """Two cores; `cpu`: seconds of CPU that web has used since its start."""
    found = Reading(at, 2, 4 * GIB, GIB, 100 * GIB, 60 * GIB, {"web": ContainerReading(cpu, GIB // 2, 0, 5.0)})
    return replace(found, **more)  # type: ignore[arg-type]


def load(cpu: float, memory: float = 0.2) -> Load:
    """Shares of what there is."""
    return Load(Amounts(2.0, 4.0 * GIB, 1.0), Amounts(2 * cpu, 4.0 * GIB * memory, 0.0))


def course_of(loads: Sequence[Load | None]) -> list[bool]:
    course, found = Course(), []
    for number, one in enumerate(loads):
        course = after(course, one, LIMITS, number * EVERY)
        found.append(course.since is not None)
    return found


def test_it_is_the_use_between_two_readings() -> None:
    found = load_between(reading(100, 7.0), reading(110, 16.0))
    assert found is not None
    assert found.used == Amounts(0.9, GIB, 40 * GIB)
    assert found.shares == Amounts(0.45, 0.25, 0.4)
    assert found.containers == {"web": Amounts(0.9, GIB / 2, 0.0)}
    assert not found.whole


def test_the_machines_own_word_counts_where_it_is_known() -> None:
    before = reading(100, 7.0, machine=MachineReading(50.0, 1.0, {}))
    then = reading(110, 16.0, machine=MachineReading(65.0, 3.0, {"memory": 4.5}))
    found = load_between(before, then)
    assert found is not None
    assert (found.used.cpu, found.stolen, found.pressure, found.whole) == (1.5, 0.2, {"memory": 4.5}, True)


@pytest.mark.parametrize(
    "then",
    [
        reading(100, 9.0),
        reading(90, 9.0),
        reading(110, 9.0, cores=4),
        reading(110, 9.0, cores=0),
        reading(110, 9.0, machine=MachineReading(2.0, 0.0, {})),
    ],
)
def test_readings_that_do_not_belong_together_say_nothing(then: Reading) -> None:
    machine = MachineReading(50.0, 0.0, {}) if then.machine is not None else None
    assert load_between(reading(100, 7.0, machine=machine), then) is None


def machine(busy: float) -> MachineReading:
    return MachineReading(busy, 0.0, {})


@pytest.mark.parametrize("then", [ContainerReading(2.0, GIB, 0, 5.0), ContainerReading(9.0, GIB, 0, 108.0)])
def test_one_that_began_anew_does_not_use_nothing(then: ContainerReading) -> None:
    """Where only containers tell what is used, that is not known, and no room for others."""
    assert load_between(reading(100, 7.0), reading(110, 0.0, containers={"web": then})) is None
    whole = load_between(
        reading(100, 7.0, machine=machine(50.0)), reading(110, 0.0, containers={"web": then}, machine=machine(60.0))
    )
    assert whole is not None
    assert (whole.used.cpu, whole.containers) == (1.0, {})


def test_it_is_looked_back_as_far_as_everything_runs() -> None:
    young = {"web": ContainerReading(9.0, GIB, 0, 5.0), "new": ContainerReading(1.0, GIB, 0, 105.0)}
    older = {"web": ContainerReading(18.0, GIB, 0, 5.0), "new": ContainerReading(11.0, GIB, 0, 105.0)}
    readings = [reading(100, 0.0), reading(110, 0.0, containers=young), reading(120, 0.0, containers=older)]
    found = load_over(readings)
    assert found is not None
    assert (found.seconds, found.used.cpu) == (10.0, 1.9)
    assert load_over(readings[:2]) is None
    assert load_over([]) is None


def test_caches_are_counted_to_containers_and_are_no_memory_in_use() -> None:
    many = {name: ContainerReading(7.0, 2 * GIB, 0, 5.0) for name in ("web", "db")}
    found = load_between(reading(100, 7.0, containers=many), reading(110, 7.0, containers=many))
    assert found is not None
    # Both together what the machine has in use.
    assert found.containers["web"].memory == GIB / 2


def test_it_lasts_before_it_counts() -> None:
    seen = course_of([load(0.95)] * 12)
    assert seen == [False] * 8 + [True] * 4


def test_one_moment_below_begins_it_anew() -> None:
    assert not any(course_of([load(0.95)] * 7 + [load(0.8)] + [load(0.95)] * 8))


def test_it_ends_below_the_target_only() -> None:
    high = [load(0.95)] * 9
    assert course_of([*high, load(0.8), load(0.75)])[-2:] == [True, True]
    assert course_of([*high, load(0.8), load(0.65)])[-2:] == [True, False]
    assert course_of([*high, load(0.65, memory=0.75)])[-1]


def test_memory_counts_as_cores_do() -> None:
    course = Course()
    for number in range(9):
        course = after(course, load(0.95, memory=0.97), LIMITS, number * EVERY)
    assert course.why == "95 % of its cores and 97 % of its memory"
    assert high_in(load(0.1, 0.91), LIMITS) == "91 % of its memory"


def test_what_is_not_known_is_neither_high_nor_low() -> None:
    assert course_of([*[load(0.95)] * 9, None, None])[-1]
    gone = [None] * (int(FORGOTTEN_AFTER / EVERY) + 2)
    assert not course_of([*[load(0.95)] * 9, *gone])[-1]
    assert not course_of([None] * 20)[-1]
    course = after(Course(0.0, 0.0), load(0.95), LIMITS, 500.0)
    assert course == Course(500.0, 500.0)


def test_a_day_of_loads_that_flap_moves_nothing_back_and_forth() -> None:
    """Two secondaries, four services whose use jumps about, a look every 15 s: each move is followed by calm."""
    rng = random.Random(24)  # noqa: S311  loads, no secrets
    size, targets = Amounts(2.0, 4.0 * GIB, 100.0 * GIB), Amounts(0.7, 0.7, 0.9)
    on = {"a": "sec1", "b": "sec1", "c": "sec1", "d": "sec2"}
    mean = {"a": 0.7, "b": 0.5, "c": 0.5, "d": 0.1}
    courses = {"sec1": Course(), "sec2": Course()}
    moves: list[tuple[float, str, str]] = []
    moved_at = -1e9
    for look in range(int(86400 / EVERY)):
        now = look * EVERY
        uses = {name: max(0.0, rng.gauss(mean[name], 0.4)) for name in on}
        of_each = {there: sum(uses[name] for name in on if on[name] == there) for there in courses}
        used = {there: Amounts(min(2.0, 0.1 + cpu), 1.0 * GIB, 0.0) for there, cpu in of_each.items()}
        courses = {there: after(courses[there], Load(size, used[there]), LIMITS, now) for there in courses}
        over = [there for there, course in courses.items() if course.since is not None]
        if not over or now - moved_at < 900:
            continue
        machines = [Machine(there, size, used[there]) for there in courses]
        containers = [
            Container(name, on[name], Amounts(uses[name], 0.1 * GIB), tuple({"sec1", "sec2"} - {on[name]}), 1.0, 1.0)
            for name in on
        ]
        for move in choose(machines, containers, targets, over).moves:
            on[move.container], moved_at = move.to, now
            moves.append((now, move.container, move.to))
    assert 1 <= len(moves) <= 3, moves
    assert len({name for _, name, _ in moves}) == len(moves), moves
