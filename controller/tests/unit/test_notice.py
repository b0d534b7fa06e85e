"""What is told of operations and troubles, and in which words. From values alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import pytest
from test_report import golden
from view_cases import CRASHED, DONE, DOWN, NOW, OPEN, REFUSED, step, view

from vcrecovery.core.episode import Episode, Outcome, Request, Step
from vcrecovery.core.evidence import Failed
from vcrecovery.core.notice import (
    SAME_REFUSAL,
    SINGLY,
    STUCK_AFTER,
    TAKES_LONG,
    Topic,
    next_message,
    of_episode,
    retry_after,
)
from vcrecovery.core.trouble import WELL_AFTER, Found, Trouble, after_a_look, told, well
from vcrecovery.plan.notify import Destination, TopicName
from vcrecovery.report.findings import findings
from vcrecovery.report.notifier import by_trouble

pytestmark = pytest.mark.usefixtures("in_utc")
NEXT = re.compile(r"^Next: ", re.MULTILINE)


def only(episode: Episode, before: Episode | None = None, now: float = NOW + 10) -> tuple[str, str]:
    (notice,) = of_episode(episode, before, now)
    assert len(NEXT.findall(notice.body)) <= 1
    return notice.title, notice.body


def ended(outcome: Outcome, reason: str = "why", **changes: Any) -> Episode:
    return replace(DONE, **{"outcome": outcome, "reason": reason, **changes})


BOOTS = replace(OPEN, steps=(step(Step.BOOT, 0.3, None),))
FENCES = replace(OPEN, steps=(step(Step.FENCE, 0.3, None),))
NO_ROUTE = replace(step(Step.FENCE, 0.3, 1.0, ok=False), evidence=Failed("no route to the BMC"))
FAILS = replace(OPEN, steps=(NO_ROUTE,))
STUCK = replace(FAILS, opened_at=NOW - STUCK_AFTER)
HAND = Request(by="ann")
BACK, PLANNED = replace(HAND, back=True), replace(HAND, planned=True)
TO = replace(HAND, to="sec2", again=True)
MOVE = replace(TO, planned=True)
WAITS = replace(MOVE, leaves="sec1")
AGAIN = Request(automatic=True, again=True)
KEPT = replace(DONE, request=BACK, steps=(*DONE.steps, step(Step.KEEP, 4.5, 4.6, restore_point="before")))


@pytest.mark.parametrize(
    ("name", "episodes"),
    [
        (
            "begun",
            [
                FENCES,
                replace(FENCES, request=HAND),
                replace(FENCES, request=AGAIN),
                replace(FENCES, request=TO),
                replace(FENCES, request=MOVE),
                replace(FENCES, request=PLANNED),
                replace(BOOTS, request=BACK),
            ],
        ),
        (
            "stuck",
            [
                STUCK,
                replace(STUCK, request=MOVE, steps=(replace(NO_ROUTE, step=Step.COPY),)),
                replace(STUCK, steps=(replace(NO_ROUTE, evidence=None),)),
                replace(FENCES, opened_at=NOW - TAKES_LONG),
                replace(OPEN, opened_at=NOW - TAKES_LONG, request=HAND, steps=()),
                # What the standby of a failback has written may take hours: that is told once it has stopped.
                replace(BOOTS, opened_at=NOW - TAKES_LONG, request=BACK, steps=(step(Step.STOP, 0.3, None),)),
            ],
        ),
        (
            "done",
            [
                DONE,
                replace(DONE, steps=()),
                replace(DONE, request=AGAIN),
                replace(DONE, request=PLANNED),
                replace(DONE, request=TO),
                replace(DONE, request=MOVE),
                replace(DONE, request=WAITS),
                KEPT,
                replace(DONE, request=BACK),
            ],
        ),
        (
            "came-to-nothing",
            [
                ended(Outcome.REFUSED),
                ended(Outcome.REFUSED, request=HAND),
                ended(Outcome.REFUSED, request=AGAIN),
                ended(Outcome.WITHDRAWN),
                ended(Outcome.TAKEN_BACK, request=PLANNED),
                ended(Outcome.TAKEN_BACK, request=MOVE),
                ended(Outcome.GIVEN_UP),
                ended(Outcome.FALSE_ALARM),
            ],
        ),
    ],
)
def test_what_is_told_to_the_letter(name: str, episodes: Sequence[Episode]) -> None:
    notices = [notice for episode in episodes for notice in of_episode(episode, None, NOW)]
    assert {notice.service for notice in notices} == {"web"}
    heads = [f"[{one.key}] {one.topic}, {one.at - NOW:.3f} s" for one in notices]
    told_ = [f"{head}\n{one.title}\n{one.body}\n" for head, one in zip(heads, notices, strict=True)]
    golden(f"notices-{name}.txt", "\n".join(told_))


def test_the_plan_names_the_topics_of_the_core() -> None:
    assert list(get_args(TopicName)) == [topic.value for topic in Topic]
    assert Destination.model_fields["about"].default == [topic.value for topic in Topic]


def test_a_failover_that_is_done() -> None:
    title, body = only(DONE)
    assert re.fullmatch(r"web: failed over in \d+\.\d s", title)
    assert "Served by its standby at 10.20.0.10, epoch 3." in body
    assert "Next: repair the VM, then `vcrecovery failback web`." in body


@pytest.mark.parametrize(
    ("request_", "title", "hint"),
    [
        (Request(planned=True), "web: switched over in", "when the work is over `vcrecovery failback web`"),
        (Request(back=True), "web: failed back in", "`vcrecovery status web` says when it is protected"),
        (Request(again=True), "web: its standby serves again, after", "repair the VM"),
    ],
)
def test_what_else_is_done(request_: Request, title: str, hint: str) -> None:
    said, body = only(replace(DONE, request=request_))
    assert said.startswith(title)
    assert hint in body


def test_nothing_begins_before_something_is_done() -> None:
    looking = replace(OPEN, steps=(step(Step.CONFIRM, 0.0, 0.2),))
    assert of_episode(looking, None, NOW + 1) == []
    acting = replace(OPEN, steps=(*looking.steps, step(Step.FENCE, 0.3, None)))
    assert only(acting, now=NOW + 1)[0] == "web: failing over"
    assert only(replace(acting, request=Request(planned=True)), now=NOW + 1)[0] == "web: switching over to its standby"
    booting = replace(looking, request=Request(back=True), steps=(step(Step.BOOT, 0.3, None),))
    title, body = only(booting, now=NOW + 1)
    assert title == "web: going back to its VM"
    assert "Asked for by operator." in body


def test_a_false_alarm_is_no_news() -> None:
    assert of_episode(ended(Outcome.FALSE_ALARM), None, NOW) == []


@pytest.mark.parametrize(
    ("outcome", "title"),
    [
        (Outcome.WITHDRAWN, "web: failover withdrawn: its VM serves"),
        (Outcome.TAKEN_BACK, "web: failover taken back"),
        (Outcome.GIVEN_UP, "web: failover given up"),
        (Outcome.REFUSED, "web: failover refused"),
    ],
)
def test_what_comes_to_nothing(outcome: Outcome, title: str) -> None:
    said, body = only(ended(outcome))
    assert said == title
    assert "why." in body


def test_the_same_refusal_again_is_no_news() -> None:
    closed = REFUSED.closed_at
    assert closed is not None
    first = replace(REFUSED, reason="its standby is 61 s old")
    again = replace(first, id=99, reason="its standby is 93 s old", opened_at=closed + 30)
    assert of_episode(again, first, NOW) == []
    assert of_episode(replace(again, reason="no route"), first, NOW) != []
    assert of_episode(replace(again, opened_at=closed), first, NOW) == []
    assert of_episode(replace(again, opened_at=closed + SAME_REFUSAL), first, NOW) != []
    assert of_episode(again, replace(first, outcome=Outcome.DONE), NOW) != []
    assert of_episode(again, None, NOW) != []


def test_one_that_is_stuck() -> None:
    failed = replace(step(Step.FENCE, 0.3, 1.0, ok=False), evidence=Failed("no route to the BMC"))
    stuck = replace(OPEN, opened_at=NOW, steps=(failed,))
    assert len(of_episode(stuck, None, NOW + STUCK_AFTER - 1)) == 1
    _, notice = of_episode(stuck, None, NOW + STUCK_AFTER)
    assert notice.title == "web: failover is stuck at step fence"
    assert "Not done after 30 s: no route to the BMC." in notice.body
    assert "The service may be down." in notice.body
    waits = replace(OPEN, opened_at=NOW, steps=(step(Step.FENCE, 0.3, 1.0),))
    assert len(of_episode(waits, None, NOW + TAKES_LONG - 1)) == 1
    assert of_episode(waits, None, NOW + TAKES_LONG)[1].title == "web: failover is stuck"


def test_a_failback_may_copy_for_hours() -> None:
    copies = replace(OPEN, opened_at=NOW, request=Request(back=True), steps=(step(Step.COPY, 1.0, None),))
    assert of_episode(copies, None, NOW + 7200) == []


def test_each_event_has_a_key_of_its_own() -> None:
    keys = [n.key for e in (DONE, replace(DONE, id=7), ended(Outcome.REFUSED)) for n in of_episode(e, None, NOW)]
    assert len(set(keys)) == len(keys)


def test_words_of_others_do_no_harm() -> None:
    hostile = ended(Outcome.REFUSED, "evil\x1b]0;x\x07\r\nBcc: everybody@example.test")
    _, body = only(hostile)
    assert body.splitlines()[0].startswith("evil\\x1b")
    assert "\nBcc" not in body


# -- messages --------------------------------------------------------------------------------------------------


def waiting(count: int) -> list[tuple[str, str]]:
    return [(f"title {number}", f"body {number}") for number in range(count)]


def test_a_few_are_told_one_by_one() -> None:
    assert next_message([], [], NOW, 20) is None
    message = next_message(waiting(SINGLY), [], NOW, 20)
    assert message is not None
    assert (message.title, message.body, message.of) == ("title 0", "body 0", 1)


def test_many_are_told_at_once() -> None:
    message = next_message(waiting(30), [], NOW, 20)
    assert message is not None
    assert (message.title, message.of) == ("VCRecovery: 30 events, the first: title 0", 30)
    assert message.body.splitlines()[0] == "- title 0"
    assert "- and 10 more" in message.body
    few = next_message(waiting(20), [], NOW, 20)
    assert few is not None
    assert "- and" not in few.body
    assert message.body.splitlines()[-1] == "Next: `vcrecovery status` lists what needs attention."


def test_no_more_than_so_many_in_an_hour() -> None:
    sent = [NOW - 3599 + number for number in range(5)]
    assert next_message(waiting(1), sent, NOW, 5) is None
    last = next_message(waiting(1), sent[1:], NOW, 5)
    assert last is not None
    assert "More than 5 messages in an hour" in last.body
    assert last.of == 1
    assert next_message(waiting(1), [NOW, *sent[1:]], NOW, 5) is None
    assert next_message(waiting(1), sent, NOW + 1, 5) is not None
    singly = next_message(waiting(1), sent[2:], NOW, 5)
    assert singly is not None
    assert singly.body == "body 0"
    # A clock that was set back does not silence it.
    assert next_message(waiting(1), [NOW + 100 for _ in range(5)], NOW, 5) is not None


def test_pauses_grow_up_to_a_quarter_of_an_hour() -> None:
    assert [retry_after(n) for n in (1, 2, 3, 4, 5, 6, 7, 1000)] == [5, 15, 45, 135, 405, 900, 900, 900]


# -- troubles --------------------------------------------------------------------------------------------------


FOUND = Found(urgent=False, said=(("it is late", "`do this`"), ("it is also old", "`do this`")))
URGENT = replace(FOUND, urgent=True)


def look(before: Trouble | None, found: Found | None, at: float) -> Trouble:
    trouble = after_a_look(before, "web", Topic.UNPROTECTED, found, NOW + at)
    assert trouble is not None
    return trouble


def test_a_trouble_that_lasts_is_told_and_told_again_when_it_is_urgent() -> None:
    trouble = look(look(None, FOUND, 0), FOUND, 60)
    assert trouble.since == NOW
    assert told(trouble, FOUND, 300, NOW + 299) is None
    first = told(trouble, FOUND, 300, NOW + 300)
    assert first is not None
    assert first.title == "web: it is late"
    assert first.body.splitlines() == [
        "It is late. So for 5 min; it can wait for the morning.",
        "It is also old.",
        "Next: `do this`.",
    ]
    urgent = told(look(trouble, URGENT, 400), URGENT, 300, NOW + 400)
    assert urgent is not None
    assert urgent.key != first.key
    assert "it needs attention now" in urgent.body
    # It stays that.
    assert look(look(trouble, URGENT, 400), FOUND, 460).urgent


def test_it_is_over_when_nothing_was_found_for_a_while() -> None:
    trouble = look(look(None, FOUND, 0), None, 600)
    assert not trouble.is_over(NOW + 600 + WELL_AFTER - 1)
    assert look(trouble, FOUND, 620).gone_since is None
    assert look(trouble, None, 640).gone_since == NOW + 600
    assert trouble.is_over(NOW + 600 + WELL_AFTER)
    notice = well(trouble, NOW + 700)
    assert (notice.title, notice.body) == ("web: protected again", "After 10 min. Next: nothing.")
    assert after_a_look(None, "web", Topic.DOWN, None, NOW) is None


@pytest.mark.parametrize(
    ("topic", "said"),
    [
        (Topic.DOWN, "served again"),
        (Topic.UNPROTECTED, "protected again"),
        (Topic.DRILL, "its drills are well again"),
        (Topic.POOL, "its pool has room again"),
        (Topic.LOAD, "it is not overloaded any more"),
        (Topic.WATCHER, "well again"),
    ],
)
def test_what_is_over_is_said_in_its_own_words(topic: Topic, said: str) -> None:
    assert well(Trouble("web", topic, NOW), NOW + 60).title == f"web: {said}"


def test_a_clock_that_is_set_back() -> None:
    trouble = look(look(None, FOUND, 0), FOUND, -3600)
    assert trouble.since == NOW - 3600
    assert look(look(None, FOUND, 0), None, -3600).gone_since == NOW - 3600


def test_what_status_lists_is_told_by_kind() -> None:
    crashed = by_trouble(findings(view(reading=CRASHED, course=DOWN)))
    assert crashed.keys() == {("web", Topic.DOWN)}
    assert crashed["web", Topic.DOWN].urgent
    assert by_trouble(findings(view())) == {}
