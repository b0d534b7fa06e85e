"""How loaded a secondary is, and when it counts as overloaded: not by one moment, and not back and forth."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from vcrecovery.balance.amounts import Amounts
from vcrecovery.balance.choice import Container, Machine, choose
from vcrecovery.balance.devices import CardReading, DiskLoad, DiskReading, NetworkLoad, Traffic
from vcrecovery.balance.load import ContainerReading, Load, MachineReading, Reading, load_between, load_over
from vcrecovery.balance.overload import (
    FORGOTTEN_AFTER,
    Course,
    Limits,
    after,
    container_amounts,
    high_in,
    machine_amounts,
    not_told,
)
from vcrecovery.balance.words import in_use, load_as_data
from vcrecovery.report.secondaries import overloaded
from vcrecovery.store.load_book import Seen

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
    assert course == Course(500.0, 500.0, of=frozenset({"cpu"}))


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


# -- disks and network -------------------------------------------------------------------------------------------------

JUDGED = replace(LIMITS, disk_latency_high=0.05, network_high=0.9)
#: A gigabit.
FAST = 125e6


def disk(latency: float, busy: float = 0.9, rate: float = 1e6) -> DiskLoad:
    return DiskLoad("vda", latency, busy, rate)


def at(seconds: float, **more: object) -> Reading:
    """What the machine says; `more` is its disks and cards."""
    return reading(seconds, 7.0, machine=MachineReading(50.0 + seconds, 0.0, {}, **more))  # type: ignore[arg-type]


def between(before: Reading, then: Reading) -> Load:
    found = load_between(before, then)
    assert found is not None
    return found


def test_what_disks_had_to_do() -> None:
    before = {"vda": DiskReading(1000, 5 << 20, 20.0, 10.0), "vdb": DiskReading(10, 0, 1.0, 1.0)}
    then = {"vda": DiskReading(1200, 15 << 20, 32.0, 15.0), "vdb": DiskReading(5010, 10 << 20, 6.0, 10.0)}
    found = between(at(100, disks=before), at(110, disks=then)).disk
    # The one for which most was waited, though the other one is busier.
    assert found == DiskLoad("vda", 12.0 / 200, 0.5, 2 * (1 << 20))


def test_one_that_hangs_completes_nothing_and_was_waited_for_all_the_time() -> None:
    before, then = {"vda": DiskReading(5, 0, 1.0, 1.0)}, {"vda": DiskReading(5, 0, 1.0, 11.0)}
    found = between(at(100, disks=before), at(110, disks=then)).disk
    assert found is not None
    assert (found.latency, found.busy) == (10.0, 1.0)
    assert high_in(replace(load(0.1), disk=found), JUDGED) == "10000 ms for each read or write on vda"


def test_what_cards_had_to_do() -> None:
    before = {"eth0": CardReading(0, 0, 0, FAST), "eth1": CardReading(0, 0, 5)}
    then = {"eth0": CardReading(1_000_000_000, 5, 20, FAST), "eth1": CardReading(50, 70, 5)}
    found = between(at(100, cards=before), at(110, cards=then)).network
    assert found == NetworkLoad(100_000_005.0, 7.5, 2.0, 0.8, FAST)
    # Of a card in a VM the speed is not known, and then no share is.
    slow = between(at(100, cards={"eth1": before["eth1"]}), at(110, cards={"eth1": then["eth1"]})).network
    assert slow == NetworkLoad(5.0, 7.0, 0.0)


@pytest.mark.parametrize(
    ("before", "then"),
    [
        (None, {"vda": DiskReading(1, 1, 1.0, 1.0)}),
        ({"vda": DiskReading(1, 1, 1.0, 1.0)}, None),
        ({"vda": DiskReading(1, 1, 1.0, 1.0)}, {"vdb": DiskReading(1, 1, 1.0, 1.0)}),
        # A counter that began anew.
        ({"vda": DiskReading(1, 1, 4e6, 1.0)}, {"vda": DiskReading(9, 9, 1.0, 1.0)}),
    ],
)
def test_disks_that_cannot_be_read_are_not_idle(before: object, then: object) -> None:
    found = between(at(100, disks=before), at(110, disks=then))
    assert (found.disk, found.network) == (None, None)
    assert (load_as_data(found)["disk"], load_as_data(found)["network"]) == (None, None)


def test_what_containers_do() -> None:
    before = {"web": ContainerReading(7.0, GIB, 0, 5.0, 1000, 50, 60), "old": ContainerReading(7.0, GIB, 0, 5.0)}
    then = {"web": ContainerReading(7.0, GIB, 0, 5.0, 3000, 250, 70), "old": ContainerReading(7.0, GIB, 0, 5.0, 9)}
    found = between(reading(100, 0.0, containers=before), reading(110, 0.0, containers=then))
    assert found.traffic == {"web": Traffic(200.0, 20.0, 1.0), "old": Traffic()}
    assert (found.traffic["web"].network, found.traffic["old"].network) == (20.0, None)


def test_disks_count_as_cores_do_where_the_plan_says_so() -> None:
    slow = replace(load(0.1), disk=disk(0.06))
    assert high_in(slow, LIMITS) == ""
    assert high_in(slow, JUDGED) == "60 ms for each read or write on vda"
    # Its few reads and writes take long, and nobody suffers.
    assert high_in(replace(load(0.1), disk=disk(0.06, busy=0.05)), JUDGED) == ""
    assert high_in(replace(load(0.95), network=NetworkLoad(1.0, 1.0, 0.0, 0.93, FAST)), JUDGED) == (
        "95 % of its cores and 93 % of its network"
    )


def judged(loads: Sequence[Load | None]) -> list[bool]:
    course, found = Course(), []
    for number, one in enumerate(loads):
        course = after(course, one, JUDGED, number * EVERY)
        found.append(course.since is not None)
    return found


def test_latency_lasts_and_ends_below_the_target_only() -> None:
    high = [replace(load(0.1), disk=disk(0.06))] * 9
    assert judged(high) == [False] * 8 + [True]
    assert judged([*high, replace(load(0.1), disk=disk(0.04))])[-1]
    assert not judged([*high, replace(load(0.1), disk=disk(0.03))])[-1]


def test_a_disk_of_which_nothing_is_known_is_not_well() -> None:
    high = [replace(load(0.1), disk=disk(0.06))] * 9
    assert judged([*high, load(0.1), load(0.1)])[-1]
    gone = [load(0.1)] * (int(FORGOTTEN_AFTER / EVERY) + 2)
    assert not judged([*high, *gone])[-1]


def test_what_is_moved_for_a_disk_is_chosen_by_who_uses_it() -> None:
    busy = Load(
        Amounts(2.0, 4.0 * GIB, 100.0 * GIB),
        Amounts(0.4, GIB, 0.0),
        {"writer": Amounts(0.1, 1.0), "thinker": Amounts(0.3, 1.0), "old": Amounts(0.1, 1.0)},
        disk=disk(0.1, rate=100.0),
        traffic={"writer": Traffic(80.0), "thinker": Traffic(5.0), "old": Traffic()},
    )
    size, used = machine_amounts(busy, JUDGED)
    there, there_used = machine_amounts(replace(busy, used=Amounts(), disk=None), JUDGED)
    assert (used.io, container_amounts(busy, "writer", JUDGED)) == (2.0, Amounts(0.1, 1.0, 0.0, 1.6))
    uses = {name: container_amounts(busy, name, JUDGED) or Amounts() for name in busy.containers}
    containers = [
        Container(name, "sec1", own, ("sec2",), 1.0, 1.0, not_told=not_told(busy, name, JUDGED))
        for name, own in uses.items()
    ]
    machines, targets = (
        [Machine("sec1", size, used), Machine("sec2", there, there_used)],
        Amounts(0.7, 0.7, 0.9, 0.7, 0.7),
    )
    choice = choose(machines, containers, targets, ["sec1"])
    assert [move.container for move in choice.moves] == ["writer"]
    assert choice.moves[0].why == (
        "takes 0.1 cores and 160 % of the disk latency allowed off sec1; sec2 has 5 % of its cores, 0 % of its memory, "
        "0 % of its pool in use then"
    )
    # Where nobody tells whose it is nothing is moved for it.
    without = choose(machines, [one for one in containers if one.name != "writer"], targets, ["sec1"])
    assert (without.moves[0].container, without.kept) == (
        "thinker",
        {"old": "how much of the disks' work is its own is not known"},
    )
    assert "120 % of the disk latency allowed" in without.short["sec1"]


def test_where_it_is_told_what_a_container_sends_that_counts() -> None:
    busy = replace(
        load(0.1),
        containers={"web": Amounts(0.1)},
        network=NetworkLoad(120e6, 1.0, 0.0, 0.96, FAST),
        traffic={"web": Traffic(None, 50e6, 1e6)},
    )
    assert container_amounts(busy, "web", JUDGED) == Amounts(0.1, network=50e6)
    assert container_amounts(busy, "web", LIMITS) == Amounts(0.1)
    assert machine_amounts(busy, JUDGED)[1].network == 120e6
    assert not_told(busy, "web", JUDGED) == ""
    assert not_told(replace(busy, traffic={}), "web", JUDGED) == (
        "how much of the network's traffic is its own is not known"
    )


def test_it_is_said_when_there_is_much_of_it() -> None:
    assert (
        in_use(replace(load(0.1), disk=disk(0.004, busy=0.3)))
        == "at least 0.2 of 2 cores, 819.2 MiB of 4 GiB of memory"
    )
    much = replace(load(0.1), disk=disk(0.062), network=NetworkLoad(1.0, 1.0, 7.0, 0.8, FAST))
    assert in_use(much).endswith(
        "of memory, disk vda 90 % busy, 62 ms for each read or write, 80 % of its network, "
        "7 packets dropped each second"
    )
    waits = in_use(replace(load(0.1), pressure={"cpu": 41.5, "memory": 0.2, "io": 3.0}))
    assert waits.endswith("of memory, pressure 42 % cpu, 3 % io")


def test_the_pressure_on_one_that_is_overloaded_is_shown() -> None:
    seen = Seen(1.0, replace(load(0.1), pressure={"cpu": 41.5}), 0.0, "95 % of its cores")
    (finding,) = overloaded({"sec1": seen, "sec2": Seen(1.0)})
    assert "(95 % of its cores, pressure 42 % cpu): no move relieves it" in str(finding)


@pytest.mark.parametrize("of", ["disk", "network"])
def test_a_day_of_noise_moves_nothing_back_and_forth(of: str) -> None:
    """As above, of a disk or a card: peaks of half a minute call nobody; what lasts calls once."""
    rng = random.Random(25)  # noqa: S311  loads, no secrets
    course, changes, was = Course(), 0, False
    for look in range(int(86400 / EVERY)):
        hours = look * EVERY / 3600
        # Of what is allowed: well for the night, at the edge in the morning, too much from ten to four.
        mean = 0.3 if hours < 6 else 0.85 if hours < 10 else 1.6 if hours < 16 else 0.4
        share = max(0.0, rng.gauss(mean, 0.15)) + (3.0 if look % 40 < 2 else 0.0)
        one = (
            replace(load(0.2), disk=disk(0.05 * share))
            if of == "disk"
            else replace(load(0.2), network=NetworkLoad(1.0, 1.0, 0.0, 0.9 * share, FAST))
        )
        course = after(course, one if rng.random() > 0.02 else None, JUDGED, look * EVERY)
        changes, was = changes + ((course.since is not None) != was), course.since is not None
    assert changes == 2
