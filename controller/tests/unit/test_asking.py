"""Questions to hosts and servers: one that hangs holds nothing else up, and is not asked twice."""

from __future__ import annotations

import threading

import pytest

from lab.waiting import wait_for
from vcrecovery.errors import ExternalError
from vcrecovery.report import query_pool as asking
from vcrecovery.report.query_pool import QueryPool

PATIENCE = 30.0


def test_answers_and_errors_come_back() -> None:
    asker = QueryPool()

    def fail() -> int:
        raise ExternalError("no")

    assert asker.ask("a", 1, lambda: 42).answer(PATIENCE) == 42
    with pytest.raises(ExternalError, match=r"^no$"):
        asker.ask("a", 2, fail).answer(PATIENCE)


def test_a_lane_that_hangs_holds_no_other_up() -> None:
    asker, release = QueryPool(per_lane=1), threading.Event()
    hanging = [asker.ask("hangs", number, lambda: release.wait(PATIENCE)) for number in range(5)]
    try:
        assert asker.ask("answers", 1, lambda: "here").answer(PATIENCE) == "here"
        with pytest.raises(ExternalError, match="no answer in time"):
            hanging[0].answer(0.01)
        # It is still being asked: the same question again is the same question.
        assert asker.ask("hangs", 0, lambda: False) is hanging[0]
    finally:
        release.set()
    assert all(question.answer(PATIENCE) for question in hanging)
    assert asker.ask("hangs", 0, lambda: False) is not hanging[0]


def test_who_fails_slowly_speaks_for_those_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "SLOW", 0.0)
    asker, release = QueryPool(per_lane=1), threading.Event()
    calls: list[int] = []

    def fail(number: int) -> None:
        calls.append(number)
        assert release.wait(PATIENCE)
        raise ExternalError(f"time-out of {number}")

    questions = [asker.ask("host", number, lambda number=number: fail(number)) for number in range(50)]  # type: ignore[misc]
    release.set()
    for question in questions:
        with pytest.raises(ExternalError, match="time-out of 0"):
            question.answer(PATIENCE)
    assert calls == [0]


def test_who_fails_at_once_speaks_for_itself_only() -> None:
    asker = QueryPool(per_lane=1)

    def fail() -> int:
        raise ExternalError("this one is broken")

    bad, good = asker.ask("server", 1, fail), asker.ask("server", 2, lambda: 2)
    assert good.answer(PATIENCE) == 2
    with pytest.raises(ExternalError):
        bad.answer(PATIENCE)


def test_many_questions_leave_few_threads() -> None:
    asker = QueryPool(per_lane=4)
    before = threading.active_count()
    release = threading.Event()
    questions = [asker.ask("one", number, lambda: release.wait(PATIENCE)) for number in range(200)]
    try:
        assert threading.active_count() - before <= 4
    finally:
        release.set()
    assert all(question.answer(PATIENCE) for question in questions)
    wait_for(lambda: all(thread.name != "ask one" for thread in threading.enumerate()), "the threads' end", PATIENCE)
