"""Whether services answer, as pages and Zabbix show it: heard all the time, or asked for while nobody asks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from test_costs import plan_data

from vcrecovery.core.health import Course, Health
from vcrecovery.detect.health_watch import HealthWatch
from vcrecovery.plan.model import Plan
from vcrecovery.report import recent_look
from vcrecovery.report.recent_look import RecentLook


class Asking:
    """A health watch whose turns can stop."""

    courses: Mapping[str, Course] = {"web1": Course(Health.ANSWERS)}
    turns = True

    def is_current(self) -> bool:
        return self.turns


def test_an_answer_of_before_is_not_shown_once_nobody_asks_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Mapping[str, Course] | None] = []

    def look(*_: Any, courses: Mapping[str, Course] | None = None) -> list[Any]:
        given.append(courses)
        return []

    monkeypatch.setattr(recent_look, "look", look)
    asking = Asking()
    recent = RecentLook(Plan.model_validate(plan_data(tmp_path, 1)), health=cast("HealthWatch", asking))
    recent.look(kept=-1)
    asking.turns = False
    recent.look(kept=-1)
    assert given == [Asking.courses, None], "None: they are asked for this look"
