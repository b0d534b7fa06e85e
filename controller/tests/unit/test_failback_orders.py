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
    ORDER_KEY,
    REPORT,
    Given,
    Order,
    Report,
    leave_report,
    order_in,
    report_in,
    report_of,
)
from vcrecovery.transfer.question import answer
from vcrecovery.transfer.receiver import Told

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


SINCE = 1764209380.25


def given(order: Order) -> Given:
    return Given(7, order, SINCE)


@pytest.mark.parametrize("order", list(Order))
def test_an_order_is_read_as_it_was_written(order: Order) -> None:
    assert order_in({ORDER_KEY: str(given(order))}) == given(order)
    assert order_in({}) is None


@pytest.mark.parametrize(
    "text",
    ["", "7", "7 copy", "7 burn 1.0", "-7 copy 1.0", "7 copy x", "7 copy 1e9", "7 copy 1.0 ", "7  copy 1.0", "9" * 99],
)
def test_a_damaged_order_is_none(text: str) -> None:
    assert order_in({ORDER_KEY: text}) is None


def test_an_order_of_before_the_newest_claim_is_none() -> None:
    order, epoch = {ORDER_KEY: str(given(Order.LAST))}, "user.vcrecovery.epoch"
    assert order_in({**order, epoch: "7"}) == given(Order.LAST)
    assert order_in({**order, epoch: "8"}) is None


def left(rootfs: Path) -> bytes | None:
    file = rootfs.parent / "templates" / REPORT
    return file.read_bytes() if file.exists() else None


def test_a_report_counts_in_the_talk_in_which_it_was_made(tmp_path: Path) -> None:
    rootfs, told = tmp_path / "rootfs", given(Order.COPY)
    report = report_of(said(**COPIED, error="a\nb\x1b[31m"), 6.0, SINCE)
    wanted = Report(SAID["boot"], "debian 12 x86_64", 7, "copy", 1, 2.5, 1000, 3, "a b [31m", 6.0, SINCE)  # type: ignore[arg-type]
    assert report == wanted
    assert report_in(left(rootfs), told) is None
    leave_report(rootfs, report)
    assert report_in(left(rootfs), told) == wanted
    assert report_in(left(rootfs), given(Order.LAST)) == wanted
    assert report_in(left(rootfs), Given(7, Order.COPY, SINCE + 1)) is None
    assert (tmp_path / "templates" / REPORT).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"7", b"{}", b'{"at": 1, "since": 1}', b"[" * 4000, b"\xff"])
def test_a_damaged_report_is_none(text: bytes) -> None:
    assert report_in(text, given(Order.COPY)) is None


def test_a_disk_that_does_not_take_a_report_is_named(tmp_path: Path) -> None:
    report = report_of(said(), 6.0, SINCE)
    (tmp_path / "templates").write_text("no folder")
    with pytest.raises(ExternalError, match="templates is no folder"):
        leave_report(tmp_path / "rootfs", report)
    with pytest.raises(ExternalError, match="gone cannot be read: No such file or directory; run the role `secondary`"):
        leave_report(tmp_path / "gone/rootfs", report)


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
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(RefusedError, match="refused: a report"):
        report_of(text, 5.0, SINCE)


class Secondary:
    """With the role that LXD has, and a clock on which things happen at their time."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rootfs, self.words, self.time = folder / "rootfs", "standby", 0.0
        self.order: Given | None = None
        self.lxd_is_away = False
        self.events: list[tuple[float, Callable[[], None]]] = []
        monkeypatch.setattr(question, "who_serves", self.who_serves)

    def who_serves(self, _state: Path, _service: str) -> Told:
        if self.lxd_is_away:
            raise ExternalError("LXD does not answer")
        return Told(self.words, self.order if self.words != "primary" else None, self.rootfs)

    def give(self, order: Order) -> None:
        self.order = given(order)

    def withdraw(self) -> None:
        self.order = None

    def returned(self) -> None:
        self.words, self.order = "primary", None

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        while self.events and self.events[0][0] <= self.time:
            self.events.pop(0)[1]()

    def ask(self, text: str = "") -> tuple[str, Any]:
        """The answer, and how long it took."""
        began = self.time
        reply = answer(self.rootfs.parent, "web", text, lambda: 5.0, lambda: self.time, self.sleep)
        return reply, round(self.time - began, 2)


@pytest.fixture
def secondary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Secondary:
    return Secondary(tmp_path, monkeypatch)


def test_without_an_order_the_answer_comes_at_once(secondary: Secondary) -> None:
    assert secondary.ask() == ("standby", 0.0)
    assert secondary.ask(said()) == ("standby", 0.0)
    secondary.words = "primary"
    assert secondary.ask(said(**LAST)) == ("primary", 0.0)
    # The role decides, also while an order lies there.
    secondary.give(Order.COPY)
    assert secondary.ask(said(**COPIED)) == ("primary", 0.0)
    assert left(secondary.rootfs) is None


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
    assert (reply, took) == (f"standby {order} 7", pytest.approx(held, abs=0.11))


def test_the_vm_hears_of_its_turn_within_a_moment(secondary: Secondary) -> None:
    secondary.give(Order.HOLD)
    secondary.events = [(3.0, lambda: secondary.give(Order.COPY))]
    assert secondary.ask(said()) == ("standby copy 7", pytest.approx(3.0, abs=0.11))
    secondary.events = [(secondary.time + 0.5, lambda: secondary.give(Order.LAST))]
    assert secondary.ask(said(**COPIED)) == ("standby last 7", pytest.approx(0.5, abs=0.11))
    secondary.events = [(secondary.time + 4.0, secondary.returned)]
    assert secondary.ask(said(**LAST)) == ("primary", pytest.approx(4.0, abs=0.11))


def test_a_failback_that_is_given_up_is_heard_of_too(secondary: Secondary) -> None:
    secondary.give(Order.HOLD)
    secondary.events = [(1.0, secondary.withdraw)]
    assert secondary.ask(said()) == ("standby", pytest.approx(1.0, abs=0.11))


def test_a_hostile_report_gets_no_answer(secondary: Secondary) -> None:
    secondary.give(Order.HOLD)
    with pytest.raises(RefusedError):
        secondary.ask("{}")
    assert left(secondary.rootfs) is None


def test_what_is_said_is_left_for_the_controller(secondary: Secondary) -> None:
    secondary.give(Order.LAST)
    secondary.ask(said(**COPIED))
    report = report_in(left(secondary.rootfs), given(Order.LAST))
    assert report is not None
    assert (report.passes, report.at) == (1, 5.0)


def test_a_lxd_that_is_restarted_meanwhile_is_waited_for(secondary: Secondary) -> None:
    def away(*, now: bool) -> None:
        secondary.lxd_is_away = now

    secondary.give(Order.HOLD)
    secondary.events = [
        (1.0, lambda: away(now=True)),
        (2.0, lambda: secondary.give(Order.COPY)),
        (3.0, lambda: away(now=False)),
    ]
    assert secondary.ask(said()) == ("standby copy 7", pytest.approx(3.0, abs=0.11))


def test_ranks_stay_behind_the_order(secondary: Secondary) -> None:
    secondary.words = "standby rank=4"
    secondary.give(Order.COPY)
    assert secondary.ask() == ("standby copy 7 rank=4", 0.0)
