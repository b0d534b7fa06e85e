"""`plan advise`: nothing beats what it proposes, its times were measured here, and the plan's text stays."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import view_program
from hypothesis import given, settings
from hypothesis import strategies as st
from test_costs import Shop
from warm_program import vcrecovery

from vcrecovery.core.drill import Drill, DrillOutcome, DrillStep, StepDone
from vcrecovery.core.episode import Episode, Outcome, Request, Step, StepRecord
from vcrecovery.core.evidence import Answered, Confirmation, Fenced, Started, Verified
from vcrecovery.core.power import Power
from vcrecovery.cost.advice import MODES, Chosen, MachineType, Needs, Proposal, front, memory_of, recovery_of, worth_it
from vcrecovery.cost.solver import solve_by_highs
from vcrecovery.cost.times import UP, Measured, Times, times_of
from vcrecovery.errors import ExitCode
from vcrecovery.plan.edit import NotHereError, edited
from vcrecovery.plan.load import load_plan
from vcrecovery.plan.modes import Mode
from vcrecovery.report.advice import Wish, choose

GIB = 2**30


def times(before: float = 1.0, cold: float = 4.0, frozen: float = 0.5, hot: float = 0.3) -> Times:
    up = {Mode.COLD: cold, Mode.WARM: 1.0, Mode.FROZEN: frozen, Mode.HOT: hot}
    return Times(
        Measured(before), {mode: Measured(seconds) for mode, seconds in up.items()}, Measured(0.2), Measured(5)
    )


def needs(name: str, gib: float = 1.0, fails_with: str = "site", **changes: float) -> Needs:
    return Needs(name, int(gib * GIB), fails_with, times(**changes))


SMALL = MachineType("small", 2 * GIB, 8.0, 1)
MIDDLE = MachineType("middle", 4 * GIB, 15.0, 2)
LARGE = MachineType("large", 8 * GIB, 40.0, 4)


# -- against brute force ------------------------------------------------------------------------------------------


def _partitions(names: Sequence[int]) -> Iterator[list[list[int]]]:
    if not names:
        yield []
        return
    first, rest = names[0], names[1:]
    for parts in _partitions(rest):
        yield [[first], *parts]
        for n in range(len(parts)):
            yield [*parts[:n], [first, *parts[n]], *parts[n + 1 :]]


def every_way(services: Sequence[Needs], machines: Sequence[MachineType], most: int) -> Iterator[Proposal]:
    """All that there is, however bad."""
    by_name = {service.name: service for service in services}
    for parts in _partitions(list(range(len(services)))):
        if len(parts) > most:
            continue
        for modes in itertools.product(*(service.modes for service in services)):
            for types in itertools.product(machines, repeat=len(parts)):
                chosen = [
                    Chosen(machine, {services[s].name: modes[s] for s in part})
                    for machine, part in zip(types, parts, strict=True)
                ]
                if all(memory_of(one, by_name) <= one.machine.memory for one in chosen):
                    yield Proposal(chosen, recovery_of(chosen, by_name))


def best(proposals: Sequence[Proposal]) -> list[tuple[float, float]]:
    """(recovery, cost) of those that nothing beats, the fastest first."""
    found: list[tuple[float, float]] = []
    for recovery, cost in sorted((round(p.recovery, 6), round(p.a_month, 6)) for p in proposals):
        if not found or cost < found[-1][1]:
            found.append((recovery, cost))
    return found


@st.composite
def sites(draw: st.DrawFn) -> tuple[list[Needs], list[MachineType], int]:
    services = [
        replace(
            needs(
                f"s{n}",
                draw(st.sampled_from([0.5, 1.0, 1.5, 3.0])),
                draw(st.sampled_from(["a", "b"])),
                before=draw(st.sampled_from([0.5, 2.0])),
                cold=draw(st.sampled_from([2.0, 5.0])),
            ),
            modes=draw(st.sampled_from([MODES, (Mode.WARM,), (Mode.COLD, Mode.FROZEN)])),
        )
        for n in range(draw(st.integers(1, 3)))
    ]
    return (
        services,
        draw(st.lists(st.sampled_from([SMALL, MIDDLE, LARGE]), min_size=1, unique=True)),
        draw(st.integers(1, 3)),
    )


@settings(max_examples=40)
@given(sites())
def test_nothing_beats_what_it_proposes(site: tuple[list[Needs], list[MachineType], int]) -> None:
    services, machines, most = site
    found = front(services, machines, solve_by_highs, most)
    by_name = {service.name: service for service in services}
    for proposal in found:
        assert all(memory_of(one, by_name) <= one.machine.memory for one in proposal.secondaries)
        assert sorted(name for one in proposal.secondaries for name in one.standbys) == sorted(by_name)
        assert math.isclose(proposal.recovery, recovery_of(proposal.secondaries, by_name))
    assert [(round(p.recovery, 6), round(p.a_month, 6)) for p in found] == best(list(every_way(*site)))


def test_cold_standbys_that_fail_together_wait_for_each_other() -> None:
    services = [needs(f"s{n}", 0.5) for n in range(3)]
    chosen = [Chosen(MIDDLE, {service.name: Mode.COLD for service in services})]
    # Two at once, then the third: two boots after one another.
    assert recovery_of(chosen, {s.name: s for s in services}) == pytest.approx(1.0 + 2 * 4.0 + 0.2)
    apart = [replace(service, fails_with=service.name) for service in services]
    assert recovery_of(chosen, {s.name: s for s in apart}) == pytest.approx(1.0 + 4.0 + 0.2)


def test_cold_standbys_that_fail_apart_share_memory() -> None:
    services = [needs("a", 1.4, "hv1"), needs("b", 1.4, "hv2")]
    (cheapest,) = front(services, [SMALL], solve_by_highs)[-1:]
    assert [one.machine.name for one in cheapest.secondaries] == ["small"]
    assert not front([replace(s, fails_with="site") for s in services], [SMALL], solve_by_highs, most=1)


def test_what_costs_the_same_changes_nothing() -> None:
    for mode in (Mode.FROZEN, Mode.HOT):
        service = replace(needs("a", frozen=0.3, hot=0.3), prefers=mode)
        assert front([service], [SMALL], solve_by_highs)[0].secondaries[0].standbys == {"a": mode}


def test_machines_that_another_one_beats_are_left_out() -> None:
    worse = MachineType("worse", 2 * GIB, 9.0, 1)
    assert worth_it([LARGE, worse, SMALL, MIDDLE]) == [SMALL, MIDDLE, LARGE]


def test_the_wish_decides() -> None:
    fast, slow = Proposal([Chosen(LARGE, {})], 2.0), Proposal([Chosen(SMALL, {})], 9.0)
    found = [fast, slow]
    assert choose(found, Wish()) is slow
    assert choose(found, Wish(recovery=5.0)) is fast
    assert choose(found, Wish(budget=20.0)) is slow
    assert choose(found, Wish(budget=100.0)) is fast
    assert choose(found, Wish(recovery=10.0, budget=100.0)) is slow
    assert choose(found, Wish(recovery=1.0)) is None
    assert choose(found, Wish(recovery=5.0, budget=20.0)) is None


# -- times --------------------------------------------------------------------------------------------------------


def failover(began: float, up: float, waited: str, lost: float = 7.0) -> Episode:
    """Fenced after 2 s, and DNS switched 0.5 s after its ports were open."""
    steps = (
        StepRecord(Step.CONFIRM, began + 1, began + 1.5, True, Confirmation(Power.SHUTOFF, freshness=lost)),
        StepRecord(Step.FENCE, began + 1.5, began + 2, True, Fenced()),
        StepRecord(Step.START, began + 2, began + 2.1, True, Started(waited=waited)),
        StepRecord(Step.PROBE, began + 2.1, began + 2 + up, True, Answered()),
        StepRecord(Step.SWITCH, began + 2 + up, began + 2.2 + up, True, None),
        StepRecord(Step.VERIFY, began + 2.2 + up, began + 2.5 + up, True, Verified()),
    )
    return Episode(1, "web1", 1, "", Request(), began, steps, began + 2.5 + up, Outcome.DONE)


def drill(seconds: float) -> Drill:
    steps = (StepDone(DrillStep.START, 0.0, seconds / 2), StepDone(DrillStep.PORTS, 0.0, seconds / 2))
    return Drill(1, "web1", 0.0, "", 1.0, DrillOutcome.PASSED, steps=steps)


def test_times_are_what_failovers_and_drills_took(tmp_path: Path) -> None:
    service = load_plan(Shop(tmp_path).path).services["web1"]
    found = times_of(service, [failover(100, 3.0, "Stopped"), failover(200, 0.4, "Frozen", 9.0)], [drill(5.0)])
    assert found.before.seconds == pytest.approx(2.0)
    assert found.up[Mode.COLD].seconds == pytest.approx(4.0)
    assert found.before.samples == found.up[Mode.COLD].samples == 2
    assert found.up[Mode.FROZEN].seconds == pytest.approx(0.4)
    assert (found.up[Mode.HOT].seconds, found.up[Mode.HOT].samples) == (UP[Mode.HOT], 0)
    assert (found.lost.seconds, found.lost.least, found.lost.most) == (8.0, 7.0, 9.0)


def test_what_says_nothing_of_times_is_left_out(tmp_path: Path) -> None:
    service = load_plan(Shop(tmp_path).path).services["web1"]
    done = failover(100, 3.0, "Stopped")
    others = [
        replace(done, outcome=None),
        replace(done, outcome=Outcome.REFUSED),
        replace(done, request=Request(planned=True)),
        replace(done, request=Request(back=True)),
        failover(100, 3.0, ""),
    ]
    found = times_of(service, others[:4], [])
    assert found.before.samples == found.lost.samples == 0
    assert all(up.samples == 0 for up in found.up.values())
    # A version before this one has not written down how it waited.
    assert all(up.samples == 0 for up in times_of(service, others[4:], []).up.values())


# -- as an operator has it ----------------------------------------------------------------------------------------


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    found = Shop(tmp_path)
    sizes = {"m1": (1, 2, 8), "m2": (2, 4, 16), "m3": (2, 8, 31)}
    found.prices["machines"] |= {
        name: {"cores": cores, "memory": f"{memory}GiB", "per_month": {"on-demand": price}}
        for name, (cores, memory, price) in sizes.items()
    }
    for service in found.plan["services"].values():
        service["cost"]["memory"] = "1500MiB"
    return found


def test_advice(shop: Shop) -> None:
    done = vcrecovery("plan", "advise", "--bear", "vm", "--plan", shop.path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "in USD, for the failure of one VM (--bear)"
    assert lines[3].split()[:4] == ["now", "412.60", "7.5", "s"]
    assert "2.8 s  m3: web1, web2, web3, web4 frozen" in lines[4]
    assert lines[5].split()[:5] == ["->", "8.00", "7.5", "s", "m1:"]
    assert "not measured" in done.stdout


def test_a_report_shows_what_is_worth_its_price(shop: Shop, tmp_path: Path) -> None:
    pages = tmp_path / "reports"
    done = vcrecovery("report", "--output", pages, "--plan", shop.path)
    assert done.returncode == 0, done.stderr
    (page,) = pages.glob("*.html")
    text = page.read_text()
    assert "What is worth its price, in USD" in text
    assert "m3: web1, web2, web3, web4 frozen" in text
    assert "USD a month" in text  # below the chart


def test_machines_get_json_and_nothing_else(shop: Shop) -> None:
    data = json.loads(vcrecovery("plan", "advise", "--json", "--plan", shop.path).stdout)
    assert data["front"][data["best"]]["month"] == 31.0
    # HiGHS greets from C, where a test in one program would not see it.
    alone = view_program.vcrecovery("plan", "advise", "--json", "--plan", shop.path)
    assert json.loads(alone.stdout) == data


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--rto", "1s"], ExitCode.REFUSED, "nothing recovers within 1 s: the fastest takes 2.8 s"),
        (["--budget", "5"], ExitCode.REFUSED, "the cheapest costs 31.00"),
        (["--budget", "600/year", "--rto", "5s"], ExitCode.DONE, "->"),
        (["--rpo", "1s"], ExitCode.DONE, "web1: 11 s of writes may be lost, more than 1 s"),
    ],
)
def test_wishes(shop: Shop, words: list[str], status: ExitCode, said: str) -> None:
    done = vcrecovery("plan", "advise", *words, "--plan", shop.path)
    assert done.returncode == status
    assert said in done.stdout


@pytest.mark.parametrize("typed", ["0", "-1", "x", "100/week", "nan"])
def test_a_budget_that_is_none(shop: Shop, typed: str) -> None:
    done = vcrecovery("plan", "advise", f"--budget={typed}", "--plan", shop.path)
    assert done.returncode == ExitCode.USAGE
    assert "is no budget; write 100/month" in done.stderr


def test_a_plan_that_is_too_small_is_told(shop: Shop) -> None:
    shop.plan["secondaries"]["sec1"]["cost"]["machine"] = "m2"
    said = vcrecovery("plan", "advise", "--plan", shop.path).stdout
    assert "sec1 is too small for that: it needs 6.359 GiB of memory and has 4 GiB" in said


def test_what_is_not_counted_is_told(shop: Shop) -> None:
    shop.plan["services"]["web2"]["needs"] = ["web1"]
    assert "not counted: web2 starts after web1" in vcrecovery("plan", "advise", "--plan", shop.path).stdout


def test_without_memory_nothing_is_guessed(shop: Shop) -> None:
    del shop.plan["services"]["web2"]["cost"]
    done = vcrecovery("plan", "advise", "--plan", shop.path)
    assert done.returncode == ExitCode.USAGE
    assert "the standby of web2" in done.stderr
    assert "services.web2.cost.memory" in done.stderr


def test_the_difference_makes_the_plan_what_was_proposed(shop: Shop) -> None:
    path = shop.path
    path.write_text("# mine\n" + path.read_text().replace("  web1:\n", "  web1:  # the shop\n"))
    patch = vcrecovery("plan", "advise", "--rto", "5s", "--apply", "--plan", path).stdout
    subprocess.run(["patch", "-p0", path], input=patch, text=True, check=True, timeout=30, capture_output=True)
    after = load_plan(path)
    assert {service.mode for service in after.services.values()} == {Mode.FROZEN}
    cost = after.secondaries["sec1"].cost
    assert cost is not None
    assert cost.machine == "m3"
    assert path.read_text().startswith("# mine\n")
    assert "  web1:  # the shop\n" in path.read_text()
    again = vcrecovery("plan", "advise", "--rto", "5s", "--apply", "--plan", path).stdout
    assert again == "# the plan need not change\n"


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("a:\n  b: 1  # one\n", "a:\n  b: 2  # one\n"),
        ("a:\n  c: 1\n", "a:\n  b: 2\n  c: 1\n"),
        ("a:  # here\n\n    # there\n    c: 1\n", "a:  # here\n    b: 2\n\n    # there\n    c: 1\n"),
        ("a: {b: 1}\n", None),
        ("a: {c: 1}\n", None),
        ("a:\n  b:\n    1\n", None),
        ("c: 1\n", None),
    ],
)
def test_a_value_of_the_text_is_changed(text: str, after: str | None) -> None:
    if after is None:
        with pytest.raises(NotHereError, match=r"a\.b"):
            edited(text, {("a", "b"): "2"})
    else:
        assert edited(text, {("a", "b"): "2"}) == after
