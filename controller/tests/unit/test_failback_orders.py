"""What lies between the controller and a VM during a failback, and how long the secondary holds its answer back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vcrecovery.errors import ExternalError, RefusedError
from vcrecovery.transfer import question
from vcrecovery.transfer.failback_orders import (
    Given,
    Order,
    Report,
    give,
    read_order,
    read_report,
    take_report,
    withdraw,
)
from vcrecovery.transfer.question import answer

SAID = {
    "boot": "0b5ef2a8-5a3e-4d7c-8a6b-5c3d8f0e9a11",
    "system": "debian 12 x86_64",
    "epoch": 0,
    "order": "",
    "passes": 0,
    "seconds": 0.0,
    "bytes": 0,
    "files": 0,
    "error": "",
}
COPIED = {"epoch": 7, "order": "copy", "passes": 1, "seconds": 2.5, "bytes": 1000, "files": 3}
LAST = {**COPIED, "order": "last", "passes": 2}


def said(**changes: Any) -> str:
    return json.dumps({**SAID, **changes})


def names(state: Path) -> set[str]:
    return {path.name for path in (state / "standbys").iterdir()}


def test_an_order_stays_until_it_is_withdrawn(tmp_path: Path) -> None:
    assert read_order(tmp_path, "web") is None
    give(tmp_path, "web", 7, Order.HOLD)
    give(tmp_path, "web", 7, Order.COPY)
    assert read_order(tmp_path, "web") == Given(7, Order.COPY)
    assert read_order(tmp_path, "db") is None
    assert names(tmp_path) == {"web.failback"}
    assert (tmp_path / "standbys/web.failback").stat().st_mode & 0o777 == 0o600
    withdraw(tmp_path, "web")
    withdraw(tmp_path, "web")
    assert read_order(tmp_path, "web") is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", "{}", '{"epoch": 7, "order": "burn"}', '{"epoch": "7", "order": "copy"}', "[" * 4000]
)
def test_a_damaged_order_is_none(text: str, tmp_path: Path) -> None:
    give(tmp_path, "web", 7, Order.COPY)
    (tmp_path / "standbys/web.failback").write_text(text)
    assert read_order(tmp_path, "web") is None


def test_a_disk_that_does_not_take_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "standbys").write_text("no folder")
    with pytest.raises(ExternalError, match=r"standbys/web.failback cannot be written: .*; free some space"):
        give(tmp_path, "web", 7, Order.COPY)
    with pytest.raises(ExternalError, match=r"standbys/web.failback cannot be removed: .*; free some space"):
        withdraw(tmp_path, "web")
    with pytest.raises(ExternalError, match=r"standbys/web.failback cannot be read: Not a directory"):
        read_order(tmp_path, "web")


def test_a_report_is_kept_while_an_order_is_open(tmp_path: Path) -> None:
    take_report(tmp_path, "web", said(), 5.0)
    assert read_report(tmp_path, "web") is None
    give(tmp_path, "web", 7, Order.COPY)
    take_report(tmp_path, "web", said(**COPIED, error="a\nb\x1b[31m"), 6.0)
    wanted = Report(SAID["boot"], "debian 12 x86_64", 7, "copy", 1, 2.5, 1000, 3, "a b [31m", 6.0)  # type: ignore[arg-type]
    assert read_report(tmp_path, "web") == wanted
    assert names(tmp_path) == {"web.failback", "web.fetched"}
    withdraw(tmp_path, "web")
    assert names(tmp_path) == set()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yes",
        "[]",
        "{}",
        "null",
        "[" * 4000,
        said(boot=7),
        said(boot="../../x"),
        said(system="x" * 101),
        said(error="x" * 301),
        said(error=None),
        said(epoch=-1),
        said(epoch=1.5),
        said(epoch=True),
        said(epoch=10**30),
        said(epoch=7),
        said(order="copy"),
        said(epoch=7, order="hold"),
        said(epoch=7, order="burn"),
        said(passes="1"),
        said(bytes=-5),
        said(files=None),
        said(seconds=-0.1),
        said(seconds=float("nan")),
        said(seconds=float("inf")),
        said(seconds="1"),
        said(seconds=10**400),
        said(note="x" * 4096),
    ],
)
def test_nonsense_is_refused_and_leaves_nothing(text: str, tmp_path: Path) -> None:
    give(tmp_path, "web", 7, Order.COPY)
    with pytest.raises(RefusedError, match="refused: a report"):
        take_report(tmp_path, "web", text, 5.0)
    assert names(tmp_path) == {"web.failback"}


class Secondary:
    """With the role that LXD has, and a clock on which things happen at their time."""

    def __init__(self, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state, self.role, self.time = state, "standby", 0.0
        self.events: list[tuple[float, Callable[[], None]]] = []
        monkeypatch.setattr(question, "who_serves", lambda _state, _service: self.role)

    def give(self, order: Order) -> None:
        give(self.state, "web", 7, order)

    def returned(self) -> None:
        self.role = "primary"
        withdraw(self.state, "web")

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        while self.events and self.events[0][0] <= self.time:
            self.events.pop(0)[1]()

    def ask(self, text: str = "") -> tuple[str, Any]:
        """The answer, and how long it took."""
        began = self.time
        reply = answer(self.state, "web", text, lambda: 5.0, lambda: self.time, self.sleep)
        return reply, round(self.time - began, 2)


@pytest.fixture
def secondary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Secondary:
    return Secondary(tmp_path, monkeypatch)


def test_without_an_order_the_answer_comes_at_once(secondary: Secondary) -> None:
    assert secondary.ask() == ("standby", 0.0)
    assert secondary.ask(said()) == ("standby", 0.0)
    secondary.role = "primary"
    assert secondary.ask(said(**LAST)) == ("primary", 0.0)
    # The role decides, also while an order lies there.
    secondary.give(Order.COPY)
    assert secondary.ask(said(**COPIED)) == ("primary", 0.0)


@pytest.mark.parametrize(
    ("order", "report", "held"),
    [
        (Order.HOLD, None, 0.0),
        (Order.HOLD, {}, 20.0),
        (Order.HOLD, COPIED, 20.0),
        (Order.COPY, None, 0.0),
        (Order.COPY, {}, 0.0),
        (Order.COPY, COPIED, 1.5),
        (Order.COPY, {**COPIED, "error": "x"}, 0.0),
        (Order.COPY, {**COPIED, "epoch": 6}, 0.0),
        (Order.COPY, LAST, 0.0),
        (Order.LAST, {}, 0.0),
        (Order.LAST, COPIED, 0.0),
        (Order.LAST, LAST, 20.0),
        (Order.LAST, {**LAST, "epoch": 6}, 0.0),
        (Order.LAST, {**LAST, "error": "x"}, 0.0),
    ],
)
def test_an_answer_that_changes_nothing_is_held_back(
    secondary: Secondary, order: Order, report: dict[str, Any] | None, held: float
) -> None:
    secondary.give(order)
    reply, took = secondary.ask("" if report is None else said(**report))
    assert (reply, took) == (f"standby {order} 7", pytest.approx(held, abs=0.06))


def test_the_vm_hears_of_its_turn_within_a_moment(secondary: Secondary) -> None:
    secondary.give(Order.HOLD)
    secondary.events = [(3.0, lambda: secondary.give(Order.COPY))]
    assert secondary.ask(said()) == ("standby copy 7", pytest.approx(3.0, abs=0.1))
    secondary.events = [(secondary.time + 0.5, lambda: secondary.give(Order.LAST))]
    assert secondary.ask(said(**COPIED)) == ("standby last 7", pytest.approx(0.5, abs=0.1))
    secondary.events = [(secondary.time + 4.0, secondary.returned)]
    assert secondary.ask(said(**LAST)) == ("primary", pytest.approx(4.0, abs=0.1))


def test_a_failback_that_is_given_up_is_heard_of_too(secondary: Secondary) -> None:
    secondary.give(Order.HOLD)
    secondary.events = [(1.0, lambda: withdraw(secondary.state, "web"))]
    assert secondary.ask(said()) == ("standby", pytest.approx(1.0, abs=0.1))


def test_a_hostile_report_gets_no_answer(secondary: Secondary) -> None:
    secondary.give(Order.HOLD)
    with pytest.raises(RefusedError):
        secondary.ask("{}")
