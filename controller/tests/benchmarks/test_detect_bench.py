"""What the benchmark of detection makes of its figures, and what counts as an answer through a name."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from detect_bench.results import Results, targets, text
from detect_bench.scale import FULL
from detect_bench.served import greeting_through
from detect_bench.stage_alarms import Alarm
from detect_bench.stage_kills import OWN, Delays
from exclude_bench.target import Target, failures
from name_answers import greeter, name_server
from vcrecovery.plan.monitoring import Detection

NAME = "s0.bench.test"


def alarms(*counts: Mapping[str, int]) -> list[Alarm]:
    return [Alarm("an operator's destroy", 1.0, count) for count in counts]


def false_alarms(*counts: Mapping[str, int]) -> list[Target]:
    return targets([], alarms(*counts))


def test_each_ways_false_alarms_are_counted_and_fail_the_benchmark() -> None:
    good = {OWN: 0, "Zabbix 7.0": 0}
    assert failures(false_alarms(good, good)) == []
    found = false_alarms(good, {OWN: 1, "Zabbix 7.0": 0}, {OWN: 1, "Zabbix 7.0": 0})
    assert failures(found) == [f"failovers of what is no failure, {OWN}: MISSED by 2"]


def test_a_way_that_was_not_looked_at_is_not_taken_for_one_without_false_alarms() -> None:
    assert failures(false_alarms({"Zabbix 7.0": 0})) == [
        f"failovers of what is no failure, {OWN}: VOID: nobody has counted"
    ]
    assert len(failures(false_alarms())) == 2


def test_the_time_to_the_answer_through_the_name_has_a_limit_of_its_own() -> None:
    kills = [Delays(OWN, [0.2, 0.1, 0.3], answered=[1.2, 0.9, 1.1]), Delays("Zabbix 6.0", [2.0])]
    found = targets(kills, alarms({OWN: 0, "Zabbix 7.0": 0}))
    assert [(target.measured, target.limit, target.met) for target in found[:3]] == [
        (0.2, 0.3, True),
        (2.0, 4.0, True),
        (1.1, 1.0, False),
    ]
    shown = text(Results(FULL, 0.5, kills, [Delays("hang", [70.0, 71.0], answered=[82.0])], [], found))
    assert "1,100 ms (900 to 1,200)" in shown
    assert "70.0, 71.0" in shown
    assert "MISSED by 0.1 s" in shown


def test_hangs_are_measured_with_the_plans_own_windows_and_more_than_once() -> None:
    assert {Detection().cpu_zero_for, Detection().cpu_high_for} == {FULL.window}
    assert FULL.hangs >= 5


@pytest.mark.parametrize(("address", "greeting"), [("127.0.0.1", b"hello"), ("127.0.0.2", None), (None, None)])
def test_an_answer_comes_from_where_the_name_leads(address: str | None, greeting: bytes | None) -> None:
    with greeter(b"hello") as port, name_server(address) as dns_port:
        assert greeting_through(NAME, port, dns_port) == greeting
