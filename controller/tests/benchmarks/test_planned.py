"""The benchmark of planned moves: a row that was lost fails it, a long interruption is a measurement."""

from __future__ import annotations

import pytest

from exclude_bench.target import failures
from planned_bench.results import targets
from planned_bench.stage_rounds import Move

LOST = "acknowledged rows lost in planned moves: MISSED by 1"


@pytest.mark.parametrize(
    ("verb", "lost", "said"),
    [("switchover", 1, [LOST]), ("failback", 1, [LOST]), ("failover", 1, []), ("switchover", 0, [])],
)
def test_only_a_crash_may_lose_a_row(verb: str, lost: int, said: list[str]) -> None:
    moves = [Move(verb, 9.0, {"probe": 1.0}, lost), Move("failback", 99.0, {"probe": 1.0}, 0)]
    assert failures(targets(moves)) == said
