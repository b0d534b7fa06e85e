"""What the relay's benchmark makes of the values that came."""

from __future__ import annotations

from pathlib import Path

from exclude_bench.target import Target, failures
from relay_bench.agents import Agent
from relay_bench.recorder import Recorded
from relay_bench.results import targets
from relay_bench.scale import Scale
from relay_bench.stage_polling import PollingCost, Values, uuid_of, values_of
from sync_bench.processes import Memory

SCALE = Scale(hypervisors=1, guests=2, poll=1.0, polls=2, notifications=1, storm_seconds=1.0)


def verdicts(values: Values) -> list[Target]:
    cost = PollingCost(2, 2.0, 0.1, Memory("relay", 1, 1), [values], 1.0)
    return targets(SCALE, cost, [])[1:]


def test_one_wrong_utilisation_fails_the_benchmark() -> None:
    right, wrong = verdicts(Values("vcrecovery", expected=40, came=40, right=39))
    assert (right.met, wrong.met) == (False, False)
    assert failures([right, wrong]) == ["wrong values of vcrecovery: MISSED by 1"]


def test_a_value_too_many_hides_no_wrong_one() -> None:
    found = verdicts(Values("vcrecovery", expected=40, came=41, right=40))
    assert failures(found) == ["wrong values of vcrecovery: MISSED by 1"]


def test_a_value_that_is_late_is_missed_and_does_not_fail_it() -> None:
    right, wrong = verdicts(Values("vcrecovery", expected=40, came=39, right=39))
    assert (right.shown, right.met, wrong.met) == ("97.5 %", False, True)
    assert failures([right, wrong]) == []


def test_a_relay_that_brings_nothing_has_nothing_right() -> None:
    assert len(failures(verdicts(Values("vcrecovery", expected=0, came=0, right=0)))) == 2


def test_which_values_are_right(tmp_path: Path) -> None:
    agent = Agent("hv1", "127.0.1.20", tmp_path / "agent", 0)
    texts = {"50.9": 0, "47.4": 0, "104.9": 1, "106": 1, "nan": 1, "": 0}
    found = [Recorded(agent.name, "vcr.heartbeat", "1", 0.0, 0.0)] * 3
    found += [Recorded(agent.name, f"vcr.cpu[{uuid_of(0, g)}]", text, 0.0, 0.0) for text, g in texts.items()]
    assert values_of(agent.kind, [agent], found, SCALE) == Values(agent.kind, expected=6, came=6, right=2)
